"""The listener container against real brokers: slow, failing, parallel and dying handlers."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer as OtherProducer
from tests.client.conftest import NewTopicFactory
from tests.support.listening import FOLDER, die_once, note_process
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.admin import Admin, NewTopic
from moldau.client.errors import ConfigError
from moldau.client.listener import (
    AckMode,
    Acknowledgment,
    AsyncListener,
    Listener,
    Retries,
    read_failure,
    source_of,
)
from moldau.client.listener.headers import Retry, failed, write_retry
from moldau.client.producer import Producer
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord
from moldau.testing.broker import MoldauProcess

ROOT = Path(__file__).parents[2]
QUICK = Retries(attempts=2, backoff_ms=10, backoff_max_ms=20)


class Seen:
    """What handlers saw; a handler itself."""

    def __init__(self) -> None:
        self.records: list[ConsumerRecord] = []

    def __call__(self, record: ConsumerRecord) -> None:
        self.records.append(record)

    @property
    def values(self) -> list[bytes]:
        return [record.value for record in self.records]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]


class Case:
    """A topic, a group and a listener's settings on one of the clusters."""

    def __init__(self, cluster: Target, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.group = f"listener-{uuid.uuid4().hex[:10]}"
        self.settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 200,
        }

    def listener(self, handler: Callable[..., object], **more: Any) -> Listener:
        return Listener(self.topic, handler, **{**self.settings, **more})

    def produce(self, values: list[bytes], keys: list[bytes] | None = None, **more: Any) -> None:
        producer = OtherProducer({"bootstrap.servers": self.cluster.bootstrap})
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            producer.produce(self.topic, value=value, key=key, **more)
        assert producer.flush(60) == 0

    def committed(self) -> dict[int, int]:
        with Admin(bootstrap_servers=self.cluster.bootstrap) as admin:
            offsets = admin.list_group_offsets(self.group)
        return {p.partition: at.offset for p, at in offsets.items() if p.topic == self.topic}

    def read(self, topic: str, count: int) -> list[Any]:
        """Records of a topic, read by another client."""
        consumer = OtherConsumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        found: list[Any] = []
        try:
            deadline = time.monotonic() + 60
            while len(found) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(message)
        finally:
            consumer.close()
        return found


@pytest.fixture
def case(cluster: Target, new_topic: NewTopicFactory) -> Case:
    return Case(cluster, new_topic())


@pytest.fixture
def wide(cluster: Target, new_topic: NewTopicFactory) -> Case:
    return Case(cluster, new_topic(partitions=3))


def numbers(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


@pytest.mark.parametrize("mode", ["record", "batch", "count", "time"])
def test_everything_is_handled_in_order_and_committed(case: Case, mode: str) -> None:
    case.produce(numbers(50))
    seen = Seen()
    with case.listener(seen, ack_mode=mode, ack_count=7, ack_time_ms=50) as listener:
        eventually(lambda: len(seen.records) == 50)
        if mode != "count":
            eventually(lambda: case.committed() == {0: 50})
        else:
            eventually(lambda: case.committed().get(0, 0) > 50 - 7)
    assert seen.values == numbers(50)
    assert case.committed() == {0: 50}
    assert listener.metrics()["records-handled-total"] == 50


async def test_coroutines_handle_records_on_the_event_loop(case: Case) -> None:
    case.produce(numbers(20))
    done = asyncio.Event()
    values: list[bytes] = []

    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(0)
        values.append(record.value)
        if len(values) == 20:
            done.set()

    async with AsyncListener(case.topic, handle, concurrency=4, **case.settings):
        await asyncio.wait_for(done.wait(), 60)
    assert values == numbers(20)
    assert case.committed() == {0: 20}


def test_keys_keep_their_order_under_parallelism(wide: Case) -> None:
    keys = [b"%d" % (n % 7) for n in range(210)]
    wide.produce(numbers(210), keys)
    by_key: dict[bytes, list[int]] = defaultdict(list)
    at_once, most = 0, 0
    lock = threading.Lock()
    barrier = threading.Barrier(2, timeout=60)

    def handle(record: ConsumerRecord) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        if record.value in (b"0", b"1"):
            barrier.wait()  # two keys, at the same time
        with lock:
            by_key[record.key].append(int(record.value))
            at_once -= 1

    with wide.listener(handle, concurrency=6, ordering="key"):
        eventually(lambda: sum(map(len, by_key.values())) == 210)
    assert all(values == sorted(values) for values in by_key.values())
    assert 2 <= most <= 6
    assert sum(wide.committed().values()) == 210


def test_a_slow_handler_does_not_cost_the_place_in_the_group(case: Case) -> None:
    case.produce(numbers(3))
    started, release = threading.Event(), threading.Event()
    seen = Seen()

    def handle(record: ConsumerRecord) -> None:
        started.set()
        assert release.wait(60)
        seen(record)

    interval = 1.5

    def keeps_its_place(admin: Admin) -> bool:
        """For longer than between polls; False if the machine itself stood still meanwhile."""
        eventually(lambda: admin.describe_groups([case.group])[0].get().state == "Stable")
        (before,) = admin.describe_groups([case.group])
        last = time.monotonic()
        until = last + 1.5 * interval
        while last < until:
            time.sleep(0.1)
            (now,) = admin.describe_groups([case.group])
            if time.monotonic() > last + interval / 2:
                return False
            last = time.monotonic()
            assert now.get().state == "Stable"
            assert now.get().members == before.get().members
        return True

    with (
        Admin(bootstrap_servers=case.cluster.bootstrap) as admin,
        case.listener(handle, max_poll_interval_ms=int(interval * 1000), queue_size=1),
    ):
        assert started.wait(60)
        eventually(lambda: keeps_its_place(admin))
        release.set()
        eventually(lambda: case.committed() == {0: 3})
    assert list(dict.fromkeys(seen.values)) == numbers(3)


def test_what_fails_ends_in_the_dead_letter_topic(case: Case) -> None:
    calls: list[bytes] = []

    def handle(record: ConsumerRecord) -> None:
        calls.append(record.value)
        if record.value == b"bad":
            raise ValueError("no such customer: Ägypten")

    before = int(time.time() * 1000) - 5_000
    case.produce(
        [b"good", b"bad", b"fine"], [b"k"] * 3, headers=[("trace", b"42")], timestamp=before
    )
    with case.listener(handle, retries=QUICK) as listener:
        eventually(lambda: calls == [b"good", b"bad", b"bad", b"fine"])
        eventually(lambda: case.committed() == {0: 3})
    assert listener.metrics()["records-dead-letter-total"] == 1
    (letter,) = case.read(f"{case.topic}.dlq", 1)
    assert (letter.key(), letter.value()) == (b"k", b"bad")
    assert letter.timestamp()[1] == before
    assert letter.headers()[0] == ("trace", b"42")
    failure = read_failure(letter.headers())
    assert failure is not None
    assert failure.source == (case.topic, 0, 1, before)
    assert (failure.group, failure.attempts) == (case.group, 2)
    assert failure.exception == "builtins.ValueError"
    assert failure.message == "no such customer: Ägypten"
    assert failure.traceback.rstrip().endswith("ValueError: no such customer: Ägypten")
    assert "in handle" in failure.traceback


def test_what_cannot_be_deserialized_is_a_dead_letter_with_its_bytes(case: Case) -> None:
    seen: list[object] = []
    case.produce([b'{"n": 1}', b"\xff not json", b'{"n": 2}'])
    with case.listener(
        lambda record: seen.append(record.value), retries=QUICK, value_deserializer="json"
    ):
        eventually(lambda: seen == [{"n": 1}, {"n": 2}])
        eventually(lambda: case.committed() == {0: 3})
    (letter,) = case.read(f"{case.topic}.dlq", 1)
    assert letter.value() == b"\xff not json"


def test_skip_leaves_a_record_behind(case: Case) -> None:
    seen = Seen()

    def handle(record: ConsumerRecord) -> None:
        if record.value == b"1":
            raise RuntimeError("never")
        seen(record)

    case.produce(numbers(3))
    with case.listener(handle, retries=QUICK, on_error="skip"):
        eventually(lambda: case.committed() == {0: 3})
    assert seen.values == [b"0", b"2"]


def test_stop_ends_the_listener_before_the_record(case: Case) -> None:
    seen = Seen()

    def handle(record: ConsumerRecord) -> None:
        if record.value == b"2":
            raise RuntimeError("out of order")
        seen(record)

    case.produce(numbers(5))
    listener = case.listener(handle, retries=QUICK, on_error="stop")
    listener.start()
    eventually(lambda: not listener.is_running)
    with pytest.raises(RuntimeError, match="out of order"):
        listener.stop()
    assert seen.values == [b"0", b"1"]
    assert case.committed() == {0: 2}


def test_retry_topics_delay_without_blocking_the_partition(case: Case) -> None:
    times: dict[bytes, list[float]] = defaultdict(list)
    topics: dict[bytes, list[str]] = defaultdict(list)
    sources = set()
    last = threading.Event()

    def handle(record: ConsumerRecord) -> None:
        times[record.value].append(time.monotonic())
        topics[record.value].append(record.topic)
        if record.value == b"4":
            last.set()
        if record.topic != case.topic:
            assert last.wait(60), "the others do not wait"
        if record.value in (b"1", b"3"):
            sources.add(source_of(record))
            if record.value == b"1" or len(times[record.value]) < 2:
                raise ConnectionError("mail server is away")

    before = int(time.time() * 1000) - 5_000
    case.produce(numbers(5), timestamp=before)
    retries = Retries(attempts=1, topics_ms=(300, 600))
    with case.listener(handle, retries=retries, concurrency=2) as listener:
        eventually(lambda: len(times[b"1"]) == 3 and len(times[b"3"]) == 2)
        eventually(lambda: listener.metrics()["records-dead-letter-total"] == 1)
        eventually(lambda: case.committed() == {0: 5})
    source = case.topic
    assert topics[b"1"] == [source, f"{source}.retry.300", f"{source}.retry.600"]
    assert topics[b"3"] == [source, f"{source}.retry.300"]
    first, second, third = times[b"1"]
    assert second - first >= 0.29
    assert third - second >= 0.59
    assert sources == {(source, 0, 1, before), (source, 0, 3, before)}
    (letter,) = case.read(f"{source}.dlq", 1)
    failure = read_failure(letter.headers())
    assert failure is not None
    assert (failure.attempts, failure.source) == (3, (source, 0, 1, before))
    assert letter.timestamp()[1] == before


def test_what_waits_in_a_retry_topic_is_not_lost_to_a_new_listener(case: Case) -> None:
    """Even if the one that put it there died at once, and new groups start at the end."""
    delay = 100
    record = ConsumerRecord(case.topic, 0, 7, 1_000)
    failure = failed(record, OSError("x"), group=case.group, attempts=1, now_ms=0)
    seen = Seen()
    retry_topic = f"{case.topic}.retry.{delay}"
    with Admin(bootstrap_servers=case.cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(retry_topic, 1)])[0].get()
    with Producer(bootstrap_servers=case.cluster.bootstrap) as producer:
        headers = write_retry((), Retry(failure, delay, delay))
        producer.send(retry_topic, b"left behind", headers=headers).result(60)
    case.settings["auto_offset_reset"] = "latest"
    with case.listener(seen, retries=Retries(topics_ms=(delay,))):
        eventually(lambda: seen.values == [b"left behind"])


def test_a_pattern_leaves_out_what_listeners_write(case: Case) -> None:
    def handle(record: ConsumerRecord) -> None:
        seen(record)
        raise ValueError("always")

    seen = Seen()
    case.produce([b"x"])
    pattern = re.compile(re.escape(case.topic) + ".*")
    settings = {**case.settings, "metadata_max_age_ms": 200}
    with Listener(pattern, handle, retries=Retries(attempts=1), **settings) as listener:
        eventually(lambda: listener.metrics().get("records-dead-letter-total") == 1)
        (letter,) = case.read(f"{case.topic}.dlq", 1)
        # Seen after the dead letter, by a listener that would know of its topic by now.
        case.produce([b"y"])
        eventually(lambda: listener.metrics()["records-dead-letter-total"] == 2)
    assert letter.value() == b"x"
    assert {record.topic for record in seen.records} == {case.topic}


def test_retries_of_another_group_are_left_to_it(case: Case) -> None:
    retries = Retries(attempts=1, topics_ms=(50,))
    failed_once = threading.Event()
    flaky, steady = Seen(), Seen()

    def handle(record: ConsumerRecord) -> None:
        if not failed_once.is_set():
            failed_once.set()
            raise ConnectionError("once")
        flaky(record)

    case.produce([b"x"])
    other = {**case.settings, "group_id": f"{case.group}-other"}
    with case.listener(handle, retries=retries):
        eventually(lambda: len(flaky.records) == 1)
    with Listener(case.topic, steady, retries=retries, **other) as listener:
        retry_topic = TopicPartition(f"{case.topic}.retry.50", 0)
        with Admin(bootstrap_servers=case.cluster.bootstrap) as admin:
            eventually(lambda: retry_topic in admin.list_group_offsets(f"{case.group}-other"))
        eventually(lambda: listener.metrics()["records-handled-total"] == 1)
    assert [record.topic for record in steady.records] == [case.topic]


def test_manual_acknowledgment_may_come_later_and_from_elsewhere(case: Case) -> None:
    acks: dict[int, Acknowledgment] = {}

    def handle(record: ConsumerRecord, ack: Acknowledgment) -> None:
        acks[record.offset] = ack

    case.produce(numbers(4))
    with case.listener(handle, ack_mode=AckMode.MANUAL, drain_timeout=0.2):
        eventually(lambda: len(acks) == 4)
        acks[1].acknowledge()
        acks[0].acknowledge()
        eventually(lambda: case.committed() == {0: 2})
        acks[3].acknowledge()
    assert case.committed() == {0: 2}


def test_only_what_was_in_flight_is_seen_again(case: Case) -> None:
    """Keys in parallel: one is stuck, the others are done, and are not done twice."""
    stuck = threading.Event()
    release = threading.Event()
    first = Seen()

    def handle(record: ConsumerRecord) -> None:
        if record.key == b"slow":
            stuck.set()
            release.wait(60)
            return
        first(record)

    keys = [b"quick", b"slow", *[b"quick"] * 8]
    case.produce(numbers(10), keys)
    with case.listener(handle, ordering="key", concurrency=2, drain_timeout=0.2) as listener:
        assert stuck.wait(60)
        eventually(lambda: listener.metrics()["records-handled-total"] == 9)
    release.set()
    assert case.committed() == {0: 1}
    second = Seen()
    with case.listener(second, ordering="key", concurrency=2):
        eventually(lambda: case.committed() == {0: 10})
    assert second.offsets == [1]


def test_draining_waits_for_running_handlers(case: Case) -> None:
    started, release = threading.Event(), threading.Event()
    seen = Seen()

    def handle(record: ConsumerRecord) -> None:
        started.set()
        assert release.wait(60)
        seen(record)

    case.produce(numbers(5))
    listener = case.listener(handle)
    listener.start()
    assert started.wait(60)
    stopping = threading.Thread(target=listener.stop)
    stopping.start()
    eventually(listener._inner._stopping.is_set)
    release.set()
    stopping.join(60)
    assert seen.values == [b"0"], "what had not begun does not begin"
    assert case.committed() == {0: 1}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_move_to_a_second_listener_without_loss_or_repetition(
    wide: Case, protocol: str
) -> None:
    if protocol == "consumer":
        for setting in ("session_timeout_ms", "heartbeat_interval_ms"):
            del wide.settings[setting]
        wide.settings["group_protocol"] = "consumer"
    everything = {b"%d" % n for n in range(300)}
    first, second = Seen(), Seen()
    both = {"concurrency": 3, "ack_mode": "record"}
    half = numbers(150)
    wide.produce(half, half)
    with wide.listener(first, **both):
        eventually(lambda: len(first.records) >= 150)
        with wide.listener(second, **both):
            rest = [b"%d" % n for n in range(150, 300)]

            def all_seen() -> bool:
                return {*first.values, *second.values} == everything

            # Some of what follows belongs to the second one, as soon as it is in the group.
            wide.produce(rest, rest)
            eventually(all_seen)
            more = 0
            while not second.records:
                more += 1
                everything.add(b"more %d" % more)
                wide.produce([b"more %d" % more], [b"%d" % more])
                eventually(all_seen)
    values = first.values + second.values
    assert len(values) == len(set(values))


def test_a_broker_that_dies_and_returns_costs_nothing(own_moldau: MoldauProcess) -> None:
    own_moldau.create_topic("orders", partitions=2)
    seen = Seen()
    gate = threading.Semaphore(50)

    def handle(record: ConsumerRecord) -> None:
        assert gate.acquire(timeout=60)
        seen(record)

    with Producer(bootstrap_servers=own_moldau.bootstrap_servers) as producer:
        for number in range(200):
            producer.send("orders", b"%d" % number, key=b"%d" % number)
        producer.flush()
        with Listener(
            "orders",
            handle,
            bootstrap_servers=own_moldau.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            ack_mode="record",
            concurrency=4,
            queue_size=20,
        ):
            eventually(lambda: len(seen.records) == 50)
            own_moldau.kill()
            gate.release(100)
            own_moldau.restart()
            gate.release(1000)
            producer.send("orders", b"last").result(60)
            eventually(lambda: len(set(seen.values)) == 201)
    with Admin(bootstrap_servers=own_moldau.bootstrap_servers) as admin:
        committed = admin.list_group_offsets("g")
    assert sum(at.offset for at in committed.values()) == 201
    again = len(seen.values) - len(set(seen.values))
    assert again <= 2 * 20, "at most the queues of two partitions"


def test_handlers_in_processes(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    case.produce([b'{"number": %d}' % n for n in range(8)])
    with case.listener(
        note_process,
        workers="processes",
        concurrency=2,
        ordering="unordered",
        value_deserializer="json",
    ):
        eventually(lambda: case.committed() == {0: 8})
    notes = [(tmp_path / f"0-{n}").read_text().split() for n in range(8)]
    assert [int(number) for _, number in notes] == list(range(8))
    assert str(os.getpid()) not in {process for process, _ in notes}


def test_a_process_that_dies_is_replaced(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    case.produce([b'{"number": %d}' % n for n in range(3)])
    with case.listener(
        die_once,
        workers="processes",
        retries=Retries(attempts=3, backoff_ms=10),
        value_deserializer="json",
    ):
        eventually(lambda: case.committed() == {0: 3})
    assert (tmp_path / "died").read_text() == "0"
    assert sorted(path.name for path in tmp_path.glob("0-*")) == ["0-0", "0-1", "0-2"]


def test_a_handler_for_processes_must_be_importable(case: Case) -> None:
    with pytest.raises(ConfigError, match="must be importable"):
        case.listener(lambda record: None, workers="processes")


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for program in started:
        program.kill()
        program.wait()


def test_another_process_takes_over_from_a_killed_one(
    wide: Case, tmp_path: Path, programs: list[subprocess.Popen[bytes]]
) -> None:
    def start(log: Path, session_ms: int) -> subprocess.Popen[bytes]:
        arguments = [wide.cluster.bootstrap, wide.group, wide.topic, str(log), str(session_ms)]
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.support.listening", *arguments], cwd=ROOT
        )
        programs.append(program)
        return program

    def lines(log: Path) -> list[str]:
        return log.read_text().splitlines() if log.exists() else []

    values = numbers(2000)
    wide.produce(values, values)
    stored = {
        f"{message.partition()} {message.offset()} {message.value().decode()}"
        for message in wide.read(wide.topic, 2000)
    }
    killed_log, heir_log = tmp_path / "killed", tmp_path / "heir"
    killed = start(killed_log, 1_000)
    eventually(lambda: len(lines(killed_log)) > 100)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    heir = start(heir_log, 45_000)
    eventually(lambda: {*lines(killed_log), *lines(heir_log)} == stored)
    eventually(lambda: sum(wide.committed().values()) == 2000)
    heir.send_signal(signal.SIGTERM)
    assert heir.wait(60) == 0
    again = set(lines(killed_log)) & set(lines(heir_log))
    assert len(again) <= 3 * 20, "at most the queues of three partitions"
    assert len(lines(heir_log)) == len(set(lines(heir_log)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"group_id": None}, "needs a group.id"),
        ({"enable_auto_commit": True}, "commits by itself"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"ordering": "random"}, "ordering is one of 'partition', 'key', 'unordered'"),
        ({"ack_mode": "manual", "workers": "processes"}, "cannot go to another process"),
        ({"workers": "goblins"}, "workers is"),
        ({"dead_letter_topic": "topic"}, "would never end"),
        ({"linger_ms": 5}, "is a setting of a producer"),
        ({"retries": None, "on_error": "cry"}, "on_error is one of"),
    ],
)
def test_wrong_settings_are_refused_at_once(wrong: dict[str, Any], words: str) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:9092", "group_id": "g", **wrong}
    if settings["group_id"] is None:
        del settings["group_id"]
    with pytest.raises(ConfigError, match=words):
        Listener("topic", print, **settings)
