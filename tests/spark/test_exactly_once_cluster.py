"""The exactly-once sink on a cluster of executors: tasks that run twice, executors that die."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.client.conftest import NewTopicFactory
from tests.spark.exactly_once_driver import run_driver
from tests.spark.exactly_once_faults import Fault, faults_left, plan_faults, waiting
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.records import committed_rows, consume, produce, wait_for_markers
from tests.spark.standalone import StandaloneCluster
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.spark.exactly_once.decision import QueryName
from moldau.spark.exactly_once.options import exactly_once_options
from moldau.spark.exactly_once.session import fresh_session
from moldau.spark.options import write_options

ROWS = 80
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "200ms",
}
SMALL = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """On two hosts: Spark does not run a task twice on one."""
    directory = tmp_path / "standalone"
    directory.mkdir()
    with ExitStack() as stack:
        yield StandaloneCluster(directory, stack, ["127.0.0.1", "127.0.0.2"])


@pytest.mark.timeout(1200)
def test_speculation_and_the_loss_of_executors(
    standalone: StandaloneCluster, kafka: Target, kafka_topic: NewTopicFactory, tmp_path: Path
) -> None:
    topic, copy = kafka_topic(partitions=2), kafka_topic(partitions=2)
    rows = [{"value": b"%d" % number, "partition": number % 2} for number in range(ROWS)]
    produce(kafka.bootstrap, topic, rows)
    plan = tmp_path / "plan"
    faults = [
        # All is written, but the task does not end, so that it is run a second time elsewhere.
        Fault("task 0 after", "waiter"),
        # Not before that batch is done: there is no third host for a third attempt.
        Fault("after commit 1", "nobody"),
        Fault("task 1 sending", "executor"),
        Fault("task 0 after", "executor"),
    ]
    plan_faults(plan, faults)
    config = [f"{name}={value}" for name, value in {**SPECULATION, **SMALL}.items()]
    assert not run_driver(kafka.bootstrap, topic, copy, str(tmp_path), standalone.url, *config)
    assert not faults_left(plan)
    assert waiting(plan), "the slow attempt was not ended by the one that has won"
    eventually(lambda: not standalone.executors(), "executors outlive their application")
    found = committed_rows(kafka.bootstrap, copy, 2, ROWS)
    assert [(row.partition, row.value) for row in found] == [
        (part, b"%d" % number) for part in range(2) for number in range(part, ROWS, 2)
    ]
    # What losers have written is aborted by the next batch, if some wrote later than the last one
    # was committed: no reader waits for them.
    checkpoint = json.loads((tmp_path / "checkpoint" / "metadata").read_text())
    server = {"kafka.bootstrap.servers": kafka.bootstrap, "exactlyOnce": "true", "topic": copy}
    settings = exactly_once_options(write_options(server))
    with fresh_session(settings, QueryName(settings.prefix, checkpoint["id"])) as session:
        session.commit(ROWS, [])
    wait_for_markers(kafka.bootstrap, copy, 2)
    # The slow attempt and those of the executors that died: their rows are there, and aborted.
    everything = consume(kafka.bootstrap, copy, 2, **{"isolation.level": "read_uncommitted"})
    assert len(everything) > ROWS
    eventually(lambda: standalone.killed_executors() >= 2, "no executor was killed")
