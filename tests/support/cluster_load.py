"""Load on a cluster while its brokers die: producers and groups of several clients, which note what
they were told; and the reckoning at the end.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka import Producer as ConfluentProducer
from tests.support.waiting import eventually

from moldau import Consumer as MoldauConsumer
from moldau import Producer as MoldauProducer
from moldau.errors import KafkaError as MoldauError

PACE_S = 0.005
PATIENCE_S = 120.0

Value = tuple[str, int]
"""Who sent it, and its number."""
Place = tuple[int, int]
"""Partition and offset."""


def encode(name: str, number: int) -> bytes:
    return f"{name}:{number}".encode()


def decode(value: bytes) -> Value:
    name, _, number = value.decode().rpartition(":")
    return name, int(number)


class Worker(ABC):
    """Somebody who works in a thread of his own until he is stopped."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name)

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:  # told by the test, which runs in another thread
            self.failure = error

    @abstractmethod
    def _work(self) -> None: ...

    @property
    @abstractmethod
    def progress(self) -> int:
        """How much it has done."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Sender(Worker):
    """A producer; ``acknowledged`` is what the cluster has said to have."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.acknowledged: dict[Value, Place] = {}
        self.refused: list[str] = []

    @property
    def progress(self) -> int:
        return len(self.acknowledged)


class ConfluentSender(Sender):
    def __init__(self, bootstrap: str, topic: str, name: str = "confluent") -> None:
        super().__init__(name)
        self._topic = topic
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": int(PATIENCE_S * 1000),
                "topic.metadata.refresh.interval.ms": 2000,
            },
            logger=None,
        )

    def _work(self) -> None:
        number = 0
        while not self._stop.is_set():
            key = b"%d" % (number % 10)
            value = encode(self.name, number)
            self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
            self._stop.wait(PACE_S)
        if self._producer.flush(PATIENCE_S):
            raise AssertionError(f"{self.name} could not finish")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is not None:
            self.refused.append(f"{value!r}: {error}")
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.acknowledged[decode(value)] = partition, offset


class MoldauSender(Sender):
    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__("moldau")
        self._topic = topic
        self._producer = MoldauProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            acks="all",
            linger_ms=2,
            delivery_timeout_ms=int(PATIENCE_S * 1000),
            metadata_max_age_ms=2000,
        )

    def _work(self) -> None:
        pending: list[tuple[Value, Any]] = []
        number = 0
        with self._producer as producer:
            while not self._stop.is_set():
                value = encode(self.name, number)
                delivery = producer.send(self._topic, key=b"%d" % (number % 10), value=value)
                pending.append(((self.name, number), delivery))
                number += 1
                pending = self._collect(pending, wait=False)
                self._stop.wait(PACE_S)
            self._collect(pending, wait=True)

    def _collect(self, pending: list[tuple[Value, Any]], *, wait: bool) -> list[tuple[Value, Any]]:
        left = []
        for value, delivery in pending:
            if not wait and not delivery.done():
                left.append((value, delivery))
                continue
            try:
                told = delivery.result(timeout=PATIENCE_S)
            except MoldauError as error:
                self.refused.append(f"{value}: {error}")
            else:
                self.acknowledged[value] = told.partition, told.offset
        return left


class Reader(Worker):
    """A member of a group, which commits what it has seen."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.seen: set[Value] = set()

    @property
    def progress(self) -> int:
        return len(self.seen)


class ConfluentReader(Reader):
    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__("confluent classic group")
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-classic",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
                "auto.commit.interval.ms": 200,
            },
            logger=None,
        )
        self._topic = topic

    def _work(self) -> None:
        self._consumer.subscribe([self._topic])
        try:
            while not self._stop.is_set():
                for message in self._consumer.consume(500, 0.1):
                    value = message.value()
                    if message.error() is None and value is not None:
                        self.seen.add(decode(value))
        finally:
            self._consumer.close()


class MoldauReader(Reader):
    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__("moldau consumer group")
        self._consumer = MoldauConsumer(
            bootstrap_servers=bootstrap,
            group_id=f"{topic}-modern",
            group_protocol="consumer",
            auto_offset_reset="earliest",
            metadata_max_age_ms=2000,
        )
        self._topic = topic

    def _work(self) -> None:
        with self._consumer as consumer:
            consumer.subscribe([self._topic])
            while not self._stop.is_set():
                for records in consumer.poll(timeout=0.2).values():
                    self.seen |= {decode(record.value) for record in records if record.value}


class ClusterLoad:
    """Two producers and two groups of one topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.senders: list[Sender] = [
            ConfluentSender(bootstrap, topic),
            MoldauSender(bootstrap, topic),
        ]
        self.readers: list[Reader] = [
            ConfluentReader(bootstrap, topic),
            MoldauReader(bootstrap, topic),
        ]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for worker in (*self.readers, *self.senders):
            self._stack.enter_context(worker)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def goes_on(self, by: int = 40, *, but: Collection[Worker] = ()) -> None:
        """Wait until everybody, but those who cannot, has done some more."""
        workers: Sequence[Worker] = (*self.senders, *self.readers)
        goals = [(worker, worker.progress + by) for worker in workers if worker not in but]

        def reached() -> bool:
            self._raise_failures()
            return all(worker.progress >= goal for worker, goal in goals)

        eventually(reached, f"no progress: {self._standing()}", PATIENCE_S)

    def reckon(self) -> None:
        """End it, and hold what is there against what was said: nothing acknowledged is lost or
        elsewhere, nothing is there twice or out of order, and the groups have seen all of it.
        """
        for sender in self.senders:
            sender.stop()
        self._raise_failures()
        for sender in self.senders:
            assert not sender.refused, (sender.name, sender.refused[:5])
        acknowledged = {
            value: place for sender in self.senders for value, place in sender.acknowledged.items()
        }
        found = read_all(self._bootstrap, self._topic)
        places = {value: place for place, value in found.items()}
        lost = {value: place for value, place in acknowledged.items() if value not in places}
        assert not lost, f"{len(lost)} of {len(acknowledged)} are lost: {sorted(lost.items())[:5]}"
        moved = {
            value: (place, places[value])
            for value, place in acknowledged.items()
            if places[value] != place
        }
        assert not moved, f"{len(moved)} are elsewhere: {sorted(moved.items())[:5]}"
        doubled = [value for value, count in Counter(found.values()).items() if count > 1]
        assert not doubled, f"{len(doubled)} are there twice: {sorted(doubled)[:5]}"
        _assert_ordered(found)
        for reader in self.readers:
            eventually(
                lambda reader=reader: acknowledged.keys() <= reader.seen,  # type: ignore[misc]
                f"{reader.name} has not seen everything",
                PATIENCE_S,
            )
        self._stack.close()
        self._raise_failures()

    def _raise_failures(self) -> None:
        for worker in (*self.senders, *self.readers):
            if worker.failure is not None:
                raise AssertionError(f"{worker.name} failed") from worker.failure

    def _standing(self) -> dict[str, int]:
        return {worker.name: worker.progress for worker in (*self.senders, *self.readers)}


def _assert_ordered(found: dict[Place, Value]) -> None:
    last: dict[tuple[int, str], int] = defaultdict(lambda: -1)
    for (partition, offset), (name, number) in sorted(found.items()):
        assert last[partition, name] < number, (partition, offset, name, number)
        last[partition, name] = number


def read_all(bootstrap: str, topic: str) -> dict[Place, Value]:
    """Everything that the topic holds, by its place."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        },
        logger=None,
    )
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: dict[Place, Value] = {}
        left = set(partitions)
        deadline = time.monotonic() + PATIENCE_S
        while left:
            assert time.monotonic() < deadline, f"partitions {sorted(left)} cannot be read"
            for message in consumer.consume(1000, 0.5):
                partition, offset, value = message.partition(), message.offset(), message.value()
                error = message.error()
                assert partition is not None
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        left.discard(partition)
                    continue
                assert offset is not None
                assert value is not None
                found[partition, offset] = decode(value)
        return found
    finally:
        consumer.close()
