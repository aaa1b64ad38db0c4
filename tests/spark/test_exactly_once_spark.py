"""Streaming queries with the exactly-once sink whose workers and drivers are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.client.reading import values_of
from tests.spark.exactly_once_faults import STEPS, plan_fault, register, start_copy
from tests.spark.records import produce
from tests.support.target import Target

SOAK = bool(os.environ.get("MOLDAU_SOAK"))
ROOT = Path(__file__).parents[2]
FEW = ("task 1 after", "after deciding", "after commit 0", "before sweeping")
ROWS = 160


@pytest.fixture
def source(kafka: Target, kafka_topic: NewTopicFactory) -> str:
    topic = kafka_topic(partitions=2)
    rows = [{"value": b"%d" % number, "partition": number % 2} for number in range(ROWS)]
    produce(kafka.bootstrap, topic, rows)
    return topic


def check(kafka: Target, copy: str) -> None:
    found = Counter(values_of(kafka.bootstrap, copy, isolation="read_committed"))
    assert found == Counter(b"%d" % number for number in range(ROWS))


@pytest.mark.timeout(1800 if SOAK else 600)
def test_a_query_whose_workers_are_killed(
    kafka: Target, kafka_topic: NewTopicFactory, source: str, spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    copy = kafka_topic(partitions=3)
    plan = tmp_path / "plan"
    for step in STEPS if SOAK else FEW:
        plan_fault(plan, step)
        query = start_copy(spark, kafka.bootstrap, source, copy, tmp_path)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(120)
        assert not plan.exists(), f"never got to {step}"
    assert start_copy(spark, kafka.bootstrap, source, copy, tmp_path).awaitTermination(120)
    check(kafka, copy)


@pytest.mark.timeout(1800 if SOAK else 600)
def test_a_query_whose_driver_is_killed(
    kafka: Target, kafka_topic: NewTopicFactory, source: str, tmp_path: Path
) -> None:
    """A worker dies too, whose task is tried again, which leaves a transaction to clean up."""
    copy = kafka_topic(partitions=3)

    def run(*deaths: str) -> int:
        command = [sys.executable, "-m", "tests.spark.exactly_once_program", kafka.bootstrap]
        done = subprocess.run(
            [*command, source, copy, str(tmp_path), *deaths],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=300,
            check=False,
        )
        return done.returncode

    rng = random.Random(3)
    steps = [rng.choice(STEPS) for _ in range(12)] if SOAK else ["after commit 0"]
    for step in steps:
        assert run("worker:task 0 after", f"driver:{step}") == -signal.SIGKILL
    assert run() == 0
    check(kafka, copy)
