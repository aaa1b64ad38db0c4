"""Streaming queries with the exactly-once sink whose workers and drivers are killed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.exactly_once_driver import run_driver
from tests.spark.exactly_once_faults import (
    STEPS,
    Fault,
    faults_left,
    plan_faults,
    register,
    start_copy,
)
from tests.spark.records import committed_rows, produce
from tests.support.soak import SOAK
from tests.support.target import Target

SEED = 7
PARTITIONS = 2
IN_TASKS = ("task {} before", "task {} sending", "task {} after")
COMMITTING = tuple(step for step in STEPS if not step.startswith("task"))
STARTS = 100 if SOAK else len(COMMITTING)
"""Each ends with a committer that is killed, after two tasks were."""
DRIVERS_KILLED = 30 if SOAK else 1
ROWS = 2000 if SOAK else 200


def random_faults(rng: random.Random) -> list[Fault]:
    """Every step, and any moment: within the time that a task or a commit takes."""
    committing = [COMMITTING[number % len(COMMITTING)] for number in range(STARTS)]
    tasks = [IN_TASKS[number % len(IN_TASKS)] for number in range(2 * STARTS)]
    rng.shuffle(committing)
    rng.shuffle(tasks)
    drivers = rng.sample(range(STARTS), DRIVERS_KILLED)
    faults = []
    for number, step in enumerate(committing):
        task = rng.randrange(PARTITIONS)
        # In the order in which a task that is tried again comes to them.
        pair = sorted(tasks[2 * number : 2 * number + 2], key=IN_TASKS.index)
        faults += [Fault(one.format(task), "worker", moment(rng)) for one in pair]
        if number in drivers:
            # The first one at its step: a process that dies before takes a later fault along.
            faults.append(Fault(step, "driver", moment(rng) if number != drivers[0] else 0.0))
        else:
            faults.append(Fault(step, "worker", moment(rng)))
    return faults


def moment(rng: random.Random) -> float:
    return rng.choice((0.0, rng.uniform(0.001, 0.1)))


@pytest.mark.timeout(7200 if SOAK else 1200)
def test_a_query_that_is_killed_again_and_again(
    kafka: Target, kafka_topic: NewTopicFactory, tmp_path: Path
) -> None:
    topic, copy = kafka_topic(partitions=PARTITIONS), kafka_topic(partitions=PARTITIONS)
    plan = tmp_path / "plan"
    plan_faults(plan, random_faults(random.Random(SEED)))
    rows = drivers = 0
    killed = False
    while faults_left(plan) or killed:
        if not killed:
            rows += ROWS
            produce(kafka.bootstrap, topic, numbers(rows - ROWS, rows))
        killed = run_driver(kafka.bootstrap, topic, copy, str(tmp_path), "local[2,4]")
        drivers += killed
    assert 1 <= drivers <= DRIVERS_KILLED
    check_copy(kafka, copy, rows)


def test_a_checkpoint_that_was_put_back_by_one_batch(
    kafka: Target, kafka_topic: NewTopicFactory, spark: SparkSession, tmp_path: Path
) -> None:
    """The batch is planned anew, with more rows: dropping it as written would lose them."""
    register(spark)
    plan_faults(tmp_path / "plan", [])
    topic, copy = kafka_topic(partitions=PARTITIONS), kafka_topic(partitions=PARTITIONS)
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"

    def run(rows: int, **options: Any) -> None:
        produce(kafka.bootstrap, topic, numbers(rows, rows + 10))
        query = start_copy(spark, kafka.bootstrap, topic, copy, tmp_path, **options)
        assert query.awaitTermination(120)

    # A batch that outlives its transactions is not written, and the next start writes it.
    with pytest.raises(StreamingQueryException, match="was not written: a transaction times out"):
        run(0, transactionTimeout="10m", margin="599999ms")
    run(10)
    shutil.copytree(checkpoint, backup)
    run(20)
    check_copy(kafka, copy, 30)
    shutil.rmtree(checkpoint)
    backup.rename(checkpoint)
    with pytest.raises(StreamingQueryException, match="with other input offsets than it has now"):
        run(30)
    check_copy(kafka, copy, 30)


def numbers(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"value": b"%d" % number, "partition": number % PARTITIONS} for number in range(first, last)
    ]


def check_copy(kafka: Target, copy: str, rows: int) -> None:
    """All rows, once, in their order."""
    found = committed_rows(kafka.bootstrap, copy, PARTITIONS, rows)
    assert [(row.partition, row.value) for row in found] == [
        (part, b"%d" % number)
        for part in range(PARTITIONS)
        for number in range(part, rows, PARTITIONS)
    ]
