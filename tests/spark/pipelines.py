"""Running pipelines in tests: all there is, in the shared session."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.run import once, run_pipeline
from moldau.spark.pipeline.spec import Pipeline

START = 1_767_225_600_000
"""2026-01-01, in milliseconds."""
MINUTE = 60_000


def run_once(pipeline: Pipeline, spark: SparkSession, checkpoint: str) -> list[Progress]:
    """Run until there is nothing more to read; what it reported."""
    reports: list[Progress] = []
    run_pipeline(once(replace(pipeline, checkpoint=checkpoint)), spark, reports.append)
    return reports


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(database)
    found = connection.execute(query).fetchall()
    connection.close()
    return found
