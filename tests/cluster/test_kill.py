"""kill -9 under load, again and again: nothing acknowledged is lost, doubled, torn or out of order.

Two producers live through all rounds: an idempotent one, which retries over the crash, and a plain
one without retries. Segments are tiny, so that kills also hit rolls. 20 rounds; ``make soak`` runs
100.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.support.process import free_port
from tests.support.soak import SOAK

from moldau.testing.broker import MoldauProcess

ROUNDS = 100 if SOAK else 20
PARTITIONS = 3
SEGMENT_BYTES = 48 * 1024
VALUE_PADDING = b"." * 600
PAUSE_S = 0.0005
Position = tuple[str, int]


class Load:
    """One producer in a thread of its own: numbered values, and what the broker acknowledged of
    them.
    """

    def __init__(self, topic: str, bootstrap: str, **settings: object) -> None:
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], int] = {}
        """(partition, offset) to the number in the record."""
        self.surprises: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 1,
                "acks": "all",
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "message.timeout.ms": 60_000,
                **settings,
            },
            logger=None,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load {topic}")

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    self.topic,
                    b"%d" % number + VALUE_PADDING,
                    partition=number % PARTITIONS,
                    on_delivery=self._delivered,
                )
                number += 1
            except BufferError:
                pass
            self._producer.poll(0)
            # A pace, not a synchronisation: enough to keep requests in flight at every kill.
            time.sleep(PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            return
        place = (message.partition(), message.offset())
        number = _number(message.value())
        if self.acknowledged.setdefault(place, number) != number:
            self.surprises.append(f"{place} was acknowledged for two records")

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def finish(self) -> None:
        assert self._producer.flush(150) == 0


def _number(value: bytes) -> int:
    assert value.endswith(VALUE_PADDING), value
    return int(value.removesuffix(VALUE_PADDING))


Found = dict[int, list[tuple[int, int]]]
"""(offset, number) of each record, by partition."""


def _read_on(bootstrap: str, topic: str, found: Found) -> None:
    """Read what came since, up to the end as it is now; CRCs are checked by the client."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        starts = {p: found[p][-1][0] + 1 if found[p] else 0 for p in range(PARTITIONS)}
        ends = {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1]
            for p in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(topic, p, start) for p, start in starts.items()])
        unread = {p for p in range(PARTITIONS) if starts[p] < ends[p]}
        deadline = time.monotonic() + 150
        while unread:
            assert time.monotonic() < deadline, f"{topic}: {unread} not read to the end"
            for message in consumer.consume(1000, timeout=0.1):
                if message.error() is not None:
                    raise KafkaException(message.error())
                partition, offset = message.partition(), message.offset()
                found[partition].append((offset, _number(message.value())))
                if offset >= ends[partition] - 1:
                    unread.discard(partition)
    finally:
        consumer.close()


def _check(load: Load, found: Found, acknowledged: int) -> None:
    assert load.surprises == []
    stored = {
        (partition, offset): number
        for partition, records in found.items()
        for offset, number in records
    }
    # The producer's thread goes on adding; a copy is made in one step.
    places = list(load.acknowledged.copy().items())[:acknowledged]
    lost = {place: number for place, number in places if stored.get(place) != number}
    assert not lost, f"{load.topic}: acknowledged but not there: {dict(list(lost.items())[:5])}"
    for partition, records in found.items():
        offsets = [offset for offset, _ in records]
        assert offsets == list(range(len(offsets))), f"{load.topic}-{partition} has gaps"
        numbers = [number for _, number in records]
        assert numbers == sorted(set(numbers)), f"{load.topic}-{partition}: doubled or out of order"


RECOVERED = re.compile(r"recovered after an unclean stop: (\d+) segments, (\d+) bytes checked")


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_acknowledged_records_survive_kill_9_in_order_and_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("MOLDAU_SEED", random.randrange(2**32)))
    print(f"MOLDAU_SEED={seed}")
    rng = random.Random(seed)
    settings = {"log.flush.offset.checkpoint.interval.ms": 100}
    with MoldauProcess(tmp_path, port=free_port(), overrides=settings) as broker:
        for topic in ("idempotent", "plain"):
            broker.create_topic(topic, PARTITIONS, internal_segment_bytes=SEGMENT_BYTES)
        loads = [
            Load("idempotent", broker.bootstrap_servers, **{"enable.idempotence": True}),
            Load("plain", broker.bootstrap_servers, retries=0),
        ]
        seen: dict[str, Found] = {load.topic: defaultdict(list) for load in loads}
        with loads[0].running(), loads[1].running():
            for _ in range(ROUNDS):
                _wait_for_progress(loads)
                time.sleep(rng.uniform(0, 0.3))
                broker.kill()
                counts = [len(load.acknowledged) for load in loads]
                broker.start()
                for load, count in zip(loads, counts, strict=True):
                    _read_on(broker.bootstrap_servers, load.topic, seen[load.topic])
                    _check(load, seen[load.topic], count)
        for load in loads:
            load.finish()
            found: Found = defaultdict(list)
            _read_on(broker.bootstrap_servers, load.topic, found)
            _check(load, found, len(load.acknowledged))
            for partition, records in seen[load.topic].items():
                assert found[partition][: len(records)] == records, "what was read has changed"
            assert len(load.acknowledged) > ROUNDS
        segments = list(broker.data_dir.glob("*/*.log"))
        assert len(segments) > 2 * PARTITIONS, "no segment was rolled"
        recoveries = RECOVERED.findall(broker.log_file.read_text())
        assert len(recoveries) == ROUNDS
        # Closed segments are flushed and lie before the recovery point: they are not read again.
        # A kill may come before a slow disk has flushed them; not each of the last ones does.
        checked = min(int(size) for _, size in recoveries[-ROUNDS // 4 :])
        stored = sum(segment.stat().st_size for segment in segments)
        assert checked < stored / 2, f"{checked} of {stored} bytes were checked"


def _wait_for_progress(loads: list[Load]) -> None:
    """Every round has acknowledged work of its own to lose."""
    before = [len(load.acknowledged) for load in loads]
    deadline = time.monotonic() + 150
    while any(len(load.acknowledged) <= n + 60 for load, n in zip(loads, before, strict=True)):
        assert time.monotonic() < deadline, "the producers make no progress"
        time.sleep(0.01)
