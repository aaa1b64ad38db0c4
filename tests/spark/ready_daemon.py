"""Spark's forker of Python workers, with everything imported that they need.

A worker that was killed is replaced in no time, so that a test can kill many.
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import tests.spark.exactly_once_faults
from pyspark.daemon import manager

import moldau.client.admin.async_admin
import moldau.client.admin.transactions
import moldau.client.consumer.async_consumer
import moldau.spark.stream_reader

__all__ = ["moldau", "pd", "tests"]

if __name__ == "__main__":
    pa.array([b""], pa.binary())
    manager()
