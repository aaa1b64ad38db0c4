"""As many partitions after a shuffle as there are cores: Spark's 200 are tasks, and files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from moldau.spark.pipeline.spec import Pipeline

PARTITIONS: Final = "spark.sql.shuffle.partitions"
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*))?")
_PATIENCE: Final = 30.0
"""Seconds for the first executor: without one there is no batch, either."""
_QUIET: Final = 1.0
"""Seconds without another one after which all are there."""
_PAUSE: Final = 0.1


def local_partitions(master: str) -> str | None:
    """For this machine alone; None if it is for a cluster to say."""
    found = _LOCAL.match(master)
    if found is None:
        return None
    cores = found[1] if (found[1] or "*") != "*" else os.cpu_count()
    return str(max(2, int(cores or 1)))


def set_cluster_partitions(pipeline: Pipeline, spark: SparkSession) -> None:
    """By the cores that the application was given, unless the file says otherwise.

    A checkpoint keeps the number that it was begun with. Where executors come and go with the work
    nobody knows how many cores there will be, and Spark's own number stays.
    """
    comes_and_goes = pipeline.config.get("spark.dynamicAllocation.enabled") == "true"
    if pipeline.remote or PARTITIONS in pipeline.config or comes_and_goes:
        return
    if local_partitions(pipeline.master) is None:
        spark.conf.set(PARTITIONS, str(_cores(spark, pipeline.config)))


def _cores(spark: SparkSession, config: Mapping[str, str]) -> int:
    context = spark.sparkContext
    if "spark.default.parallelism" not in config:
        _await_executors(context, expected_cores(config))
    return max(2, context.defaultParallelism)


def expected_cores(config: Mapping[str, str]) -> int:
    """How many the settings ask for; 0 if they take what there is."""
    instances = int(config.get("spark.executor.instances", 0))
    each = int(config.get("spark.executor.cores", 1))
    return int(config.get("spark.cores.max", instances * each))


def _await_executors(context: Any, cores: int) -> None:
    """They register one by one, some time after the application."""
    end = time.monotonic() + _PATIENCE
    count, since = 0, time.monotonic()
    while time.monotonic() < end:
        # One of them is the driver.
        now = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
        if now != count:
            count, since = now, time.monotonic()
        quiet = time.monotonic() - since > _QUIET
        if count and quiet and context.defaultParallelism >= cores:
            return
        time.sleep(_PAUSE)
