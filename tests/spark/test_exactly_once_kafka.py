"""The exactly-once protocol on Apache Kafka, in processes that are killed at every step."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import re
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.client.conftest import NewTopicFactory, topic_factory
from tests.client.reading import values_of
from tests.spark.exactly_once_faults import (
    PLAN,
    STEPS,
    Fault,
    plan_faults,
    run_batch,
    waiting,
    write_parts,
)
from tests.spark.processes import is_stopped
from tests.spark.records import wait_for_markers
from tests.support.apache_kafka import ApacheKafka
from tests.support.soak import SOAK
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.admin.admin import Admin
from moldau.spark.exactly_once import session
from moldau.spark.exactly_once.decision import QueryName
from moldau.spark.exactly_once.errors import ExactlyOnceError
from moldau.spark.exactly_once.options import exactly_once_options
from moldau.spark.exactly_once.session import fresh_session
from moldau.spark.options import write_options
from moldau.wire.api import ApiKey

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.spark.exactly_once_faults"])

Killed = bool
PARTITIONS = 2
KILLS = 100 if SOAK else 8


class StoppedError(Exception):
    """The query has stopped, and said why."""


class Query:
    """A query whose batches run in processes of their own."""

    def __init__(self, kafka: Target, topic: str, place: Path) -> None:
        self.kafka = kafka
        self.topic = topic
        self.plan = place / "plan"
        self._result = place / "result"
        self.id = uuid.uuid4().hex
        self.expected: Counter[bytes] = Counter()
        self.batch = -1
        self.seconds_to_live: float | None = None

    def next(self, step: str | None = None, **options: str) -> Killed:
        """Run a new batch, which dies at the step, if it gets there."""
        self.batch += 1
        self.expected.update(row for part in self.parts for row in part)
        return self.run(step, **options)

    @property
    def parts(self) -> list[list[bytes]]:
        return [[b"%d.%d.%d" % (self.batch, part, n) for n in range(3)] for part in range(2)]

    def run(self, step: str | None = None, **options: str) -> Killed:
        """Run the batch, or run it again."""
        plan_faults(self.plan, [] if step is None else [Fault(step)])
        process = self.start(**options)
        process.join(self.seconds_to_live)
        process.kill()  # which it does not notice if it is through
        return self.outcome(process)

    def start(self, **options: str) -> ForkServerProcess:
        """Run the batch in a process of its own."""
        self._result.unlink(missing_ok=True)
        given = self.options(**options)
        arguments = (given, self.id, self.batch, self.parts, str(self.plan), str(self._result))
        process = processes.Process(target=run_batch, args=arguments)
        process.start()
        return process

    def outcome(self, process: ForkServerProcess) -> Killed:
        process.join()
        if process.exitcode == -signal.SIGKILL:
            return True
        assert process.exitcode == 0
        if self._result.exists():
            raise StoppedError(self._result.read_text())
        return False

    def options(self, **options: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap,
            "topic": self.topic,
            "exactlyOnce": "true",
            **{f"exactlyOnce.{name}": value for name, value in options.items()},
        }

    def check(self) -> None:
        """Every row of the batches is visible once, and nothing is left open."""
        wait_for_markers(self.kafka.bootstrap, self.topic, PARTITIONS)
        found = values_of(self.kafka.bootstrap, self.topic, isolation="read_committed")
        assert Counter(found) == self.expected

    def time_out_after(self, step: str) -> None:
        """A new batch dies at the step, and what it has left open times out."""
        seconds = 4
        while True:
            # The margin is for getting from the decision to the step.
            times = {"transactionTimeout": f"{seconds}s", "margin": f"{600 * seconds}ms"}
            try:
                assert self.next(step, **times)
                break
            except StoppedError as error:
                # It was too slow to get there in time.
                assert "was not written" in str(error)  # noqa: PT017
                assert not self.run()
                seconds *= 2
        self.wait_until_nothing_is_open()

    def wait_until_nothing_is_open(self) -> None:
        """The cluster has aborted what timed out."""
        with Admin(bootstrap_servers=self.kafka.bootstrap) as admin:
            eventually(lambda: not any(self.id in one for one in _unfinished(admin)), timeout=300)


def _unfinished(admin: Admin) -> list[str]:
    listed = admin.list_transactions(states=("Ongoing", "PrepareAbort"))
    return [one.transactional_id for one in listed]


@pytest.fixture
def old_kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    """With transaction version 1: a transaction's end leaves its epoch as it is."""
    options = ("--feature", "transaction.version=1")
    with ApacheKafka(tmp_path / "old", format_options=options) as kafka:
        yield kafka


@pytest.fixture
def query(kafka: Target, kafka_topic: NewTopicFactory, tmp_path: Path) -> Query:
    return Query(kafka, kafka_topic(partitions=PARTITIONS), tmp_path)


def test_a_batch_killed_at_any_step_is_written_once(query: Query) -> None:
    for step in STEPS:
        assert query.next(step), f"never got to {step}"
        assert not query.run()
    query.check()


def test_kills_with_transaction_version_1(old_kafka: ApacheKafka, tmp_path: Path) -> None:
    query = Query(old_kafka, topic_factory(old_kafka.bootstrap)(partitions=PARTITIONS), tmp_path)
    for step in ("task 1 after", "after deciding", "after commit 0", "after commit 1"):
        assert query.next(step)
        assert not query.run()
    query.check()


def test_kills_at_random_while_a_killed_batch_is_repeated(query: Query) -> None:
    rng = random.Random(7)
    kills = 0
    while kills < KILLS:
        step: str | None = rng.choice(STEPS)
        killed = query.next(step)
        while killed:
            kills += 1
            step = rng.choice((*STEPS, "before resuming", "before abort 0", None))
            killed = query.run(step)
    query.check()


def test_kills_at_any_moment(query: Query) -> None:
    rng = random.Random(11)
    query.next()  # the first one starts what later ones are forked from
    usual, kills = math.inf, 0
    while kills < KILLS:
        query.seconds_to_live = None if math.isinf(usual) else rng.uniform(usual / 10, usual)
        began = time.monotonic()
        killed = query.next()
        if not killed:
            # The quickest: one that took longer by chance would be a time in which all others end.
            usual = min(usual, time.monotonic() - began)
        while killed:
            kills += 1
            query.seconds_to_live = rng.choice((None, rng.uniform(usual / 10, usual)))
            killed = query.run()
    query.check()


def test_attempts_that_lost_do_not_hold_readers_up(query: Query) -> None:
    assert query.next("task 1 after")  # leaves both transactions of the batch open
    assert query.run("task 0 after")
    assert not query.run()
    query.check()


def test_a_decision_that_timed_out_whole_is_made_again(query: Query) -> None:
    query.time_out_after("after deciding")
    assert not query.run()
    query.check()


def test_a_decision_that_timed_out_in_part_stops_the_query(query: Query) -> None:
    query.time_out_after("after commit 0")
    with pytest.raises(
        StoppedError,
        match=re.escape("is written in part: 1 of its 2 transactions (3 rows, Spark partitions 1)"),
    ):
        query.run()
    assert not query.run(onLostTransaction="replay")
    query.check()


def test_a_batch_that_has_taken_too_long_is_not_decided(query: Query) -> None:
    query.next()
    with pytest.raises(StoppedError, match="was not written: a transaction times out in 5"):
        query.next(transactionTimeout="10m", margin="599999ms")
    assert not query.run()
    query.check()


def test_a_checkpoint_that_was_put_back_stops_the_query(query: Query) -> None:
    query.next()
    query.next()
    query.batch = 0
    with pytest.raises(
        StoppedError, match=re.escape("Spark is at batch 0, but batch 1 of this query is written")
    ):
        query.run()


@pytest.mark.parametrize("step", ["before deciding", "after deciding", "before commit 1"])
def test_a_driver_that_wakes_up_after_its_successor(
    query: Query, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped for as long as its successor took for this batch."""
    monkeypatch.setenv(PLAN, str(query.plan))
    query.next()
    query.batch += 1
    query.expected.update(row for part in query.parts for row in part)
    plan_faults(query.plan, [Fault(step, "waiter")])
    sleeper = query.start()
    eventually(lambda: waiting(query.plan), timeout=120)
    assert sleeper.pid is not None
    os.kill(sleeper.pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(sleeper.pid or 0))
    waiting(query.plan)[0].unlink()

    settings = exactly_once_options(write_options(query.options()))
    name = QueryName(settings.prefix, query.id)
    with fresh_session(settings, name) as successor:
        successor.commit(query.batch, write_parts(settings, name, query.batch, query.parts))
        os.kill(sleeper.pid, signal.SIGCONT)
        if step == "before deciding":
            with pytest.raises(StoppedError, match="another one with the same checkpoint"):
                query.outcome(sleeper)
        else:
            assert not query.outcome(sleeper)  # it was the first to decide
        query.check()
        # The one that woke up and failed has not taken the ledger from its successor.
        query.batch += 1
        query.expected.update(row for part in query.parts for row in part)
        successor.commit(query.batch, write_parts(settings, name, query.batch, query.parts))
    query.check()


def test_a_ledger_that_was_deleted_is_noticed(query: Query, kafka_topic: NewTopicFactory) -> None:
    topic = kafka_topic(cleanup_policy="compact")
    query.next(topic=topic)
    assert query.next("after commit 1", topic=topic)
    admin = AdminClient({"bootstrap.servers": query.kafka.bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    eventually(lambda: topic not in admin.list_topics(timeout=60).topics)
    with pytest.raises(StoppedError, match=re.escape(f"but topic {topic} does not know of it")):
        query.run(topic=topic)
    query.check()


def test_a_topic_of_decisions_that_forgets_is_refused(
    query: Query, kafka_topic: NewTopicFactory
) -> None:
    topic = kafka_topic(cleanup_policy="delete")
    with pytest.raises(
        StoppedError, match=re.escape("has cleanup.policy=delete: set it to compact")
    ):
        query.next(topic=topic)


def test_a_timeout_that_brokers_do_not_allow(query: Query) -> None:
    with pytest.raises(
        StoppedError, match=re.escape("transactionTimeout=960s is longer than the brokers allow")
    ):
        query.next(transactionTimeout="16m")


def test_a_cluster_without_transactions_is_refused(
    clusters: Callable[[str], Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Something that this cluster does not serve stands for them, in this process.
    monkeypatch.setattr(session, "_NEEDED", (ApiKey.DESCRIBE_QUORUM,))
    moldau = clusters("moldau")
    query = Query(moldau, topic_factory(moldau.bootstrap)(), tmp_path)
    settings = exactly_once_options(write_options(query.options()))
    with (
        fresh_session(settings, QueryName(settings.prefix, query.id)) as opened,
        pytest.raises(ExactlyOnceError, match="needs transactions, and this cluster has none"),
    ):
        opened.resume(0)
