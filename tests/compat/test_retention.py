"""Retention while clients write and read: old segments go, and readers never notice, or recover.

A producer at full speed, small segments, a retention of a few of them, a check several times a
second. Whoever reads at the tail sees every record. Whoever reads where segments are being deleted
is told OFFSET_OUT_OF_RANGE, which its client turns into what ``auto.offset.reset`` says.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.support.clients.confluent import QUIET, ConfluentKafka
from tests.support.target import Target
from tests.support.waiting import eventually
from tests.support.wire import WireClient

from moldau.wire.api import ApiKey

SEGMENT_BYTES = 1 << 18
RETENTION_BYTES = 16 * SEGMENT_BYTES
VALUE = b"." * 1000
WINDOW = 1000
"""Records that the producer may be ahead of the reader at the tail: far less than is retained."""
RECORDS = 25_000
TIMEOUT_S = 150.0
EARLIEST = -2
DAY_MS = 86_400_000
FAST_CHECKS = {
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "0",
}


@pytest.fixture
def target(new_target: Callable[[dict[str, str]], Target]) -> Target:
    return new_target(FAST_CHECKS)


class Load:
    """A producer in a thread of its own, which stays within a window ahead of a reader."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                "linger.ms": 2,
                "batch.size": 32 * 1024,
                "enable.idempotence": True,
            }
        )
        self._room = threading.Semaphore(WINDOW)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.errors: list[KafkaError] = []

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if self._room.acquire(timeout=0.1):
                self._producer.produce(
                    self._topic, b"%d" % number + VALUE, partition=0, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)
        self._producer.flush(TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors.append(error)

    def was_read(self) -> None:
        self._room.release()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def reader(bootstrap: str, topic: str, reset: str, offset: int = 0) -> Consumer:
    """It holds next to nothing back, so that its place in the log is where the test is."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            **QUIET,
            "group.id": "never-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": reset,
            "queued.max.messages.kbytes": 256,
            "fetch.message.max.bytes": 64 * 1024,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def read(consumer: Consumer, count: int) -> Iterator[Message]:
    """The next messages and errors."""
    deadline = time.monotonic() + TIMEOUT_S
    while count:
        for message in consumer.consume(min(count, 500), 0.2):
            count -= 1
            deadline = time.monotonic() + TIMEOUT_S
            yield message
        assert time.monotonic() < deadline, "nothing comes any more"


class Tail(threading.Thread):
    """Reads all that the load writes, and lets it go on."""

    def __init__(self, target: Target, topic: str, load: Load) -> None:
        super().__init__(name="tail")
        self._consumer = reader(target.bootstrap, topic, "error")
        self._target = target
        self._topic = topic
        self._load = load
        self._stopped = threading.Event()
        self.seen = 0
        self.fault: str | None = None

    def run(self) -> None:
        while not self._stopped.is_set() and self.fault is None:
            for message in self._consumer.consume(500, 0.2):
                error, value = message.error(), message.value()
                if error is not None:
                    self.fault = str(error)
                elif message.offset() != self.seen or value != b"%d" % self.seen + VALUE:
                    self.fault = f"{value[:9]!r} at {message.offset()}, expected {self.seen}"
                self.seen += 1
                self._load.was_read()
        self._consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def wait_for(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait while the load goes on."""

        def met() -> bool:
            assert self.fault is None, self.fault
            return condition()

        eventually(met, otherwise)

    def wait_for_log_start(self, beyond: int) -> None:
        self.wait_for(lambda: log_start(self._target, self._topic) > beyond, "nothing is deleted")


def ask(target: Target, api: ApiKey, **request: Any) -> Any:
    async def call() -> Any:
        async with await WireClient.connect(target.bootstrap) as client:
            return await client.call(api, **request)

    return asyncio.run(call())


def log_start(target: Target, topic: str) -> int:
    asked = [{"partition_index": 0, "timestamp": EARLIEST}]
    wanted = [{"name": topic, "partitions": asked}]
    answer = ask(target, ApiKey.LIST_OFFSETS, replica_id=-1, topics=wanted)
    (offset,) = (p.offset for t in answer.topics for p in t.partitions)
    return int(offset)


def size_in_answers(target: Target, topic: str) -> int:
    """The partition's size as DescribeLogDirs says it."""
    wanted = [{"topic": topic, "partitions": [0]}]
    answer = ask(target, ApiKey.DESCRIBE_LOG_DIRS, topics=wanted)
    (size,) = (p.partition_size for d in answer.results for t in d.topics for p in t.partitions)
    return int(size)


def size_on_disk(directory: Path) -> int:
    """Of all data files, those that wait for their removal included."""
    total = 0
    for path in directory.glob("*.log*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def test_the_tail_sees_every_record_and_the_head_recovers(target: Target) -> None:
    topic = "busy"
    admin = ConfluentKafka(target.bootstrap)
    admin.create_topic(
        topic,
        1,
        {
            "internal.segment.bytes": str(SEGMENT_BYTES),
            "retention.bytes": str(RETENTION_BYTES),
            "retention.ms": "-1",
        },
    )
    heads = {reset: reader(target.bootstrap, topic, reset) for reset in RESETS}
    with Load(target.bootstrap, topic) as load:
        # Until the tail reads, there is no more than a window: nothing is deleted yet.
        places = {reset: [m.offset() for m in read(heads[reset], 10)] for reset in RESETS}
        assert all(offsets == list(range(10)) for offsets in places.values())
        tail = Tail(target, topic, load)
        tail.start()
        try:
            for number in range(3):
                # Far beyond what a reader may hold back in its queue.
                tail.wait_for_log_start(places["earliest"][-1] + 4000)
                tail.wait_for(
                    lambda: size_on_disk(target.data_dir / f"{topic}-0") < 2 * RETENTION_BYTES,
                    "deleted files stay on disk",
                )
                places["earliest"] += read_over_a_gap(heads["earliest"], places["earliest"][-1])
                if number == 0:
                    places["latest"] += read_over_a_gap(heads["latest"], places["latest"][-1])
                    assert places["latest"][-1] > places["earliest"][-1] - 4000
                    assert fails_with_no_offset(heads["error"])
            tail.wait_for(lambda: tail.seen >= RECORDS, "the tail does not get there")
        finally:
            tail.stop()
    assert tail.fault is None
    assert not load.errors
    for offsets in places.values():
        assert offsets == sorted(set(offsets)), "in order, none twice"
    for head in heads.values():
        head.close()
    eventually(
        lambda: RETENTION_BYTES <= size_in_answers(target, topic) < RETENTION_BYTES + SEGMENT_BYTES,
        "DescribeLogDirs still shows more than is retained",
    )
    eventually(
        lambda: size_on_disk(target.data_dir / f"{topic}-0") < RETENTION_BYTES + SEGMENT_BYTES,
        "files stay on disk",
    )


RESETS = ("earliest", "latest", "error")


def read_over_a_gap(consumer: Consumer, last: int) -> list[int]:
    """Offsets from what the reader had in its queue to the first records after the reset."""
    offsets: list[int] = []
    for message in read(consumer, 100_000):
        assert message.error() is None, message.error()
        offsets.append(message.offset())
        if offsets[-1] > last + 1:
            return offsets
        last = offsets[-1]
    raise AssertionError("there was no gap")


def fails_with_no_offset(consumer: Consumer) -> bool:
    """With auto.offset.reset=error the client reports it, once what it had queued is read."""
    for message in read(consumer, 100_000):
        error = message.error()
        if error is not None:
            return bool(error.code() == KafkaError._AUTO_OFFSET_RESET)
    return False


def test_old_records_go_and_a_time_in_the_future_keeps_those_behind_it(target: Target) -> None:
    client = ConfluentKafka(target.bootstrap)
    now = time.time_ns() // 1_000_000
    old, future = now - 10 * DAY_MS, now + 10 * DAY_MS
    topics = {
        "all-old": [old] * 6,
        "young-at-the-end": [old, old, old, old, now, now],
        "young-in-between": [old, old, now, old, old, old],
        "future": [old, old, future, old, old, old],
        "all-young": [now] * 6,
    }
    for topic in topics:
        settings = {"message.timestamp.after.max.ms": str(20 * DAY_MS)}
        # Two of the records fill a segment.
        client.create_topic(topic, 1, {"internal.segment.bytes": "3000", **settings})
    client.create_topic("later", 1, {})
    producer = Producer({"bootstrap.servers": target.bootstrap, **QUIET, "linger.ms": 0})
    for topic, times in topics.items():
        write_at(producer, topic, times)
    eventually(lambda: log_start(target, "all-old") == 6, "old records stay")
    eventually(lambda: log_start(target, "young-at-the-end") == 4, "old records stay")
    eventually(lambda: log_start(target, "young-in-between") == 2, "old records stay")
    eventually(lambda: log_start(target, "future") == 2, "old records stay")
    # Another topic that empties shows that checks have come round since.
    write_at(producer, "later", [old])
    eventually(lambda: log_start(target, "later") == 1, "old records stay")
    starts = {topic: log_start(target, topic) for topic in topics}
    assert starts == {
        "all-old": 6,
        "young-at-the-end": 4,
        "young-in-between": 2,
        "future": 2,
        "all-young": 0,
    }


def write_at(producer: Producer, topic: str, times: list[int]) -> None:
    """One record of a kilobyte per time, in a batch of its own."""
    for timestamp in times:
        producer.produce(topic, VALUE, partition=0, timestamp=timestamp)
        assert producer.flush(TIMEOUT_S) == 0
