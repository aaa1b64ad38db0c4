"""Producing to Moldau and to Apache Kafka: what arrives, and what becomes of each record."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from tests.client.conftest import NewTopicFactory
from tests.client.reading import read_topic, values_of
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau import (
    AsyncProducer,
    ClosedError,
    Delivery,
    KafkaError,
    NoBrokersError,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
    TimedOutError,
    UnknownTopicError,
)
from moldau.client.metadata import TopicInfo
from moldau.client.producer.sender import Sender

SECONDS = 120


@pytest.fixture
def producer_with(cluster: Target) -> Callable[..., Producer]:
    return lambda **settings: Producer(bootstrap_servers=cluster.bootstrap, **settings)


def test_the_first_lines_of_a_program(cluster: Target) -> None:
    topic = f"greetings-{uuid.uuid4().hex[:8]}"  # the cluster creates it
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        future = producer.send(topic, key=b"en", value=b"hello")
        assert future.result(timeout=SECONDS).offset == 0
        assert future.result() == RecordMetadata(topic, 0, 0, future.result().timestamp)
        assert future.done()
        assert future.exception() is None
    ((stored,),) = read_topic(cluster.bootstrap, topic).values()
    assert (stored.key, stored.value) == (b"en", b"hello")


async def test_deliveries_can_be_awaited(cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic()
    async with AsyncProducer(bootstrap_servers=cluster.bootstrap) as producer:
        first = await producer.send(topic, b"a")
        second = await producer.send(topic, b"b")
        assert (await second).offset == 1
        assert (await first).offset == 0
        with pytest.raises(RuntimeError, match="await the delivery"):
            (await producer.send(topic, b"c")).result()


async def test_a_blocking_producers_deliveries_can_be_awaited_too(
    new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    with producer_with(linger_ms=20) as producer:
        placed = await asyncio.gather(*(producer.send(topic, b"%d" % n) for n in range(50)))
    assert [place.offset for place in placed] == list(range(50))


def test_keyed_records_stay_together_and_in_order(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic(partitions=4)
    with producer_with(batch_size=500) as producer:
        for number in range(700):
            producer.send(topic, b"%d" % number, key=b"key %d" % (number % 7))
    homes: dict[bytes | None, set[int]] = {}
    orders: dict[bytes | None, list[int]] = {}
    for partition, records in read_topic(cluster.bootstrap, topic).items():
        for record in records:
            homes.setdefault(record.key, set()).add(partition)
            orders.setdefault(record.key, []).append(int(record.value or 0))
    assert {len(places) for places in homes.values()} == {1}
    assert orders == {b"key %d" % k: list(range(k, 700, 7)) for k in range(7)}


def test_records_without_a_key_are_spread(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic(partitions=3)
    with producer_with(batch_size=300) as producer:
        for _ in range(600):
            producer.send(topic, b"x" * 50)
    found = read_topic(cluster.bootstrap, topic)
    assert set(found) == {0, 1, 2}
    assert sum(map(len, found.values())) == 600


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_headers_timestamps_and_nulls_arrive_under_every_codec(
    cluster: Target,
    new_topic: NewTopicFactory,
    producer_with: Callable[..., Producer],
    codec: str,
) -> None:
    topic = new_topic()
    headers = [("one", b"1"), ("none", None), ("one", b"again")]
    with producer_with(compression_type=codec, linger_ms=50) as producer:
        producer.send(topic, b"v" * 1000, key=b"k", headers=headers, timestamp=1_700_000_000_000)
        producer.send(topic, None, key=b"tombstone")
        producer.send(topic, b"")
        placed = producer.send(topic, b"last", timestamp=1_600_000_000_000).result(SECONDS)
    assert (placed.offset, placed.timestamp) == (3, 1_600_000_000_000)
    full, tombstone, empty, last = read_topic(cluster.bootstrap, topic)[0]
    assert (full.key, full.value, full.headers) == (b"k", b"v" * 1000, headers)
    assert full.timestamp == 1_700_000_000_000
    assert (tombstone.key, tombstone.value) == (b"tombstone", None)
    assert (empty.key, empty.value) == (None, b"")
    assert last.timestamp == 1_600_000_000_000


def test_more_than_the_socket_takes_is_sent_without_acknowledgements_too(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    with producer_with(acks=0, buffer_memory=1 << 20) as producer:
        for number in range(300):
            producer.send(topic, b"%d" % number + b"x" * 50_000)
        last = producer.send(topic, b"last")
        producer.flush()
        assert last.done()
        # Closing waits until all has left; the broker may still be reading.
    while (found := values_of(cluster.bootstrap, topic))[-1:] != [b"last"]:
        pass
    assert len(found) == 301


def test_the_brokers_time_is_told_where_the_topic_has_it(
    new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    with producer_with() as producer:
        placed = producer.send(topic, b"", timestamp=1_600_000_000_000).result(SECONDS)
    assert placed.timestamp > 1_700_000_000_000


@pytest.mark.parametrize(("acks", "offset"), [("all", 0), (1, 0), (0, -1)])
def test_every_kind_of_acknowledgement(
    cluster: Target,
    new_topic: NewTopicFactory,
    producer_with: Callable[..., Producer],
    acks: Any,
    offset: int,
) -> None:
    topic = new_topic()
    with producer_with(acks=acks) as producer:
        assert producer.send(topic, b"x").result(SECONDS).offset == offset
    # Without acknowledgements a fast reader may come before the record.
    while values_of(cluster.bootstrap, topic) != [b"x"]:
        assert acks == 0


def test_each_record_has_its_own_fate(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic(max_message_bytes=1000)
    with producer_with(linger_ms=100) as producer:
        good = [producer.send(topic, b"good %d" % number) for number in range(100)]
        bad = producer.send(topic, b"x" * 5000)
        after = [producer.send(topic, b"after %d" % number) for number in range(100)]
        # The batch of them all is refused, and halved until only the bad one is left.
        assert isinstance(bad.exception(SECONDS), RecordTooLargeError)
        placed = [delivery.result(SECONDS).offset for delivery in good + after]
    assert placed == list(range(200))
    expected = [b"good %d" % n for n in range(100)] + [b"after %d" % n for n in range(100)]
    assert values_of(cluster.bootstrap, topic) == expected


def test_send_many_gives_the_place_of_every_record(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic(partitions=3)
    values = [b"%d" % number for number in range(5000)]
    done: list[Any] = []
    with producer_with() as producer:
        delivery = producer.send_many(topic, values, keys=values, on_delivery=done.append)
        places = delivery.result(SECONDS)
    assert (delivery.count, delivery.done(), delivery.exception()) == (5000, True, None)
    assert done == [delivery]
    found = read_topic(cluster.bootstrap, topic)
    assert [found[place.partition][place.offset].value for place in places] == values


async def test_send_many_from_asyncio(cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic()
    async with AsyncProducer(bootstrap_servers=cluster.bootstrap, buffer_memory=20_000) as producer:
        # Many times the buffer: waits for room in between.
        delivery = await producer.send_many(topic, [b"%d" % n for n in range(5000)])
        assert [place.offset for place in await delivery] == list(range(5000))
    assert values_of(cluster.bootstrap, topic) == [b"%d" % n for n in range(5000)]


def test_a_small_buffer_slows_the_program_and_loses_nothing(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    with producer_with(buffer_memory=2000, batch_size=500) as producer:
        for number in range(500):
            producer.send(topic, b"%d" % number)
    assert values_of(cluster.bootstrap, topic) == [b"%d" % number for number in range(500)]


def test_threads_share_a_producer(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic(partitions=2)
    deliveries: list[list[Delivery]] = [[] for _ in range(6)]

    def work(number: int) -> None:
        for n in range(500):
            deliveries[number].append(
                producer.send(topic, b"%d %d" % (number, n), partition=number % 2)
            )

    with producer_with(batch_size=2000) as producer:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
    found = read_topic(cluster.bootstrap, topic)
    for number, own in enumerate(deliveries):
        offsets = [delivery.result(0).offset for delivery in own]
        assert offsets == sorted(offsets)
        stored = [found[number % 2][offset].value for offset in offsets]
        assert stored == [b"%d %d" % (number, n) for n in range(500)]


def test_what_cannot_be_sent_is_refused_at_once(
    new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    with producer_with() as producer:
        with pytest.raises(UnknownTopicError, match="has no partition 7"):
            producer.send(topic, b"", partition=7)
        with pytest.raises(RecordTooLargeError, match=r"larger than max\.request\.size"):
            producer.send(topic, b"x" * (2 << 20))
        with pytest.raises(SerializationError, match=r"value must be bytes, not str; value_seri"):
            producer.send(topic, "text")
        with pytest.raises(SerializationError, match="key must be bytes, not int"):
            producer.send(topic, b"", key=5)
        with pytest.raises(SerializationError, match="value must be bytes, not bytearray"):
            producer.send(topic, bytearray(b"may change"))
        with pytest.raises(ValueError, match="milliseconds since 1970"):
            producer.send(topic, b"", timestamp=-5)
        with pytest.raises(TypeError, match="partition must be an int, not str"):
            producer.send(topic, b"", partition="0")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="headers must have values of bytes, str or None; 'a'"):
            producer.send(topic, b"", headers={"a": 5})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="topic must be a str, not bytes"):
            producer.send_many(b"topic", [b""])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="3 values and 1 keys"):
            producer.send_many(topic, [b"", b"", b""], keys=[b""])


def test_headers_are_pairs_or_a_mapping(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    stored = [("trace", b"\x01"), ("lang", "čeština".encode()), ("none", None)]
    given = {"trace": b"\x01", "lang": "čeština", "none": None}
    with producer_with() as producer:
        producer.send(topic, b"mapping", headers=given)
        producer.send(topic, b"pairs", headers=list(given.items()))
        producer.send(topic, b"once", headers=(pair for pair in given.items()))
        producer.send(topic, b"without", headers=None)
        producer.send_many(topic, [b"many", b"many"], headers=given)
    with producer_with(value_serializer="str") as producer:
        producer.send(topic, "serialized", headers=given)
    records = read_topic(cluster.bootstrap, topic)[0]
    assert [(record.value, list(record.headers)) for record in records] == [
        (b"mapping", stored),
        (b"pairs", stored),
        (b"once", stored),
        (b"without", []),
        (b"many", stored),
        (b"many", stored),
        (b"serialized", stored),
    ]


def test_without_a_cluster_send_gives_up_after_max_block_ms() -> None:
    with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=300) as producer:

        def says_why() -> bool:
            with pytest.raises((NoBrokersError, TimedOutError)) as failure:
                producer.send("nowhere", b"")
            # A machine that stands still for so long has not even tried.
            return "Cannot connect to 127.0.0.1:1" in str(failure.value)

        eventually(says_why)


def test_closing_sends_what_waits(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    producer = producer_with(linger_ms=60_000)
    delivery = producer.send(topic, b"patient")
    assert not delivery.done()
    producer.close()
    assert delivery.result(0).offset == 0
    with pytest.raises(ClosedError, match="is closed"):
        producer.send(topic, b"too late")
    producer.close()
    assert values_of(cluster.bootstrap, topic) == [b"patient"]


def test_closing_at_once_fails_what_waits(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    producer = producer_with(linger_ms=60_000)
    seen: list[Delivery] = []
    delivery = producer.send(topic, b"never", on_delivery=seen.append)
    producer.close(timeout=0)
    assert isinstance(delivery.exception(0), ClosedError)
    assert seen == [delivery]
    assert values_of(cluster.bootstrap, topic) == []


FORKING = """
import os, sys
from moldau import ClosedError, Producer

producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60000)
producer.send(sys.argv[2], b"from the parent")
child = os.fork()
if child == 0:
    for call in (lambda: producer.send(sys.argv[2], b"from the child"), producer.flush):
        try:
            call()
        except ClosedError as error:
            assert "before a fork" in str(error), error
        else:
            os._exit(1)
    producer.close()
    with Producer(bootstrap_servers=sys.argv[1]) as own:
        own.send(sys.argv[2], b"from the child")
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
producer.close()
"""

UNCLOSED = """
import sys
from moldau import Producer

producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60000)
producer.send(sys.argv[2], b"lost")
"""


def run_script(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stderr


def test_a_fork_leaves_the_records_to_the_parent(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    assert run_script(FORKING, cluster.bootstrap, topic) == ""
    assert values_of(cluster.bootstrap, topic) == [b"from the child", b"from the parent"]


def test_a_producer_that_nobody_closes_lets_the_program_end_and_says_what_is_lost(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    said = run_script(UNCLOSED, cluster.bootstrap, new_topic())
    assert said == "a producer ends without close(): 1 records may not be stored\n"


def test_nobody_waits_for_the_records_of_a_producer_that_is_gone(
    new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    producer = producer_with(linger_ms=60_000)
    delivery = producer.send(topic, b"lost")
    del producer
    gc.collect()
    assert isinstance(delivery.exception(SECONDS), ClosedError)


def test_flush_gives_up_after_its_timeout(new_topic: NewTopicFactory, cluster: Target) -> None:
    topic = new_topic()
    producer = Producer(bootstrap_servers=cluster.bootstrap, linger_ms=60_000)
    delivery = producer.send(topic, b"x")
    with pytest.raises(TimedOutError):
        delivery.result(timeout=0.01)
    producer.flush(SECONDS)
    assert delivery.done()
    producer.flush(0.01)  # nothing to wait for
    producer.close()


def test_a_recreated_topic_is_written_under_its_new_id(
    cluster: Target, new_topic: NewTopicFactory, producer_with: Callable[..., Producer]
) -> None:
    topic = new_topic()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def topic_id() -> str | None:
        wanted = TopicCollection([topic])
        try:
            return str(admin.describe_topics(wanted)[topic].result(SECONDS).topic_id)
        except KafkaException:
            return None

    with producer_with() as producer:
        for number in range(5):
            producer.send(topic, b"old %d" % number).result(SECONDS)
        before = topic_id()
        admin.delete_topics([topic])[topic].result(SECONDS)
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS)
        # The controller has done it; until the broker knows, it takes records for the old one.
        eventually(lambda: topic_id() not in (None, before))
        assert producer.send(topic, b"new").result(SECONDS).offset == 0
    assert values_of(cluster.bootstrap, topic) == [b"new"]


def test_serializers(cluster: Target, new_topic: NewTopicFactory) -> None:
    class Numbers:
        def serialize(self, topic: str, value: int) -> bytes:
            return f"{topic[:6]}{value}".encode()

    topic = new_topic()
    for key, value, sent in (
        ("str", "json", ("naïve", {"a": [1, None]})),
        (Numbers, lambda value: bytes([value]), (5, 7)),
        ("bytes", "str", (b"raw", None)),
    ):
        settings: dict[str, Any] = {"key_serializer": key, "value_serializer": value}
        with Producer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
            producer.send(topic, sent[1], key=sent[0]).result(SECONDS)
            if value == "str":
                with pytest.raises(SerializationError, match="a str is needed, not int"):
                    producer.send(topic, 5)
    stored = [(record.key, record.value) for record in read_topic(cluster.bootstrap, topic)[0]]
    assert stored == [
        ("naïve".encode(), b'{"a":[1,null]}'),
        (b"client5", b"\x07"),
        (b"raw", None),
    ]


def test_interceptors_see_each_record_once_and_cannot_stop_it(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    class Stamp(ProducerInterceptor):
        def __init__(self) -> None:
            self.sent: list[Any] = []
            self.fates: list[tuple[int | None, bool]] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            self.sent.append(record.value)
            return record._replace(headers=[*record.headers, ("stamp", b"yes")])

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: Exception | None
        ) -> None:
            self.fates.append((metadata.offset if metadata else None, error is not None))

    class Broken(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("broken")

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: Exception | None
        ) -> None:
            raise RuntimeError("broken")

    topic = new_topic(max_message_bytes=1000)
    stamp = Stamp()
    with Producer(
        bootstrap_servers=cluster.bootstrap, interceptor_classes=[Broken, stamp], linger_ms=0
    ) as producer:
        producer.send(topic, b"a").result(SECONDS)
        producer.send(topic, b"x" * 2000).exception(SECONDS)
        with pytest.raises(UnknownTopicError):
            producer.send(topic, b"b", partition=9)
    assert stamp.sent == [b"a", b"x" * 2000, b"b"]
    assert stamp.fates == [(0, False), (None, True), (None, True)]
    assert [r.headers for r in read_topic(cluster.bootstrap, topic)[0]] == [[("stamp", b"yes")]]


def test_partitioners(cluster: Target, new_topic: NewTopicFactory) -> None:
    class ByLength:
        def partition(
            self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: TopicInfo
        ) -> int:
            return len(value or b"") % len(topic.partitions)

    topic = new_topic(partitions=3)
    with Producer(bootstrap_servers=cluster.bootstrap, partitioner_class=ByLength) as producer:
        placed = [producer.send(topic, b"x" * n).result(SECONDS).partition for n in range(6)]
        assert placed == [0, 1, 2, 0, 1, 2]
        assert producer.send(topic, b"x", partition=2).result(SECONDS).partition == 2
        assert sorted(info.partition for info in producer.partitions_for(topic)) == [0, 1, 2]
    with Producer(bootstrap_servers=cluster.bootstrap, partitioner_class="round_robin") as producer:
        sent = [producer.send(topic, b"", key=b"same") for _ in range(6)]
        assert sorted(delivery.result(SECONDS).partition for delivery in sent) == [0, 0, 1, 1, 2, 2]


def test_metrics_count_what_happened(cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic()
    with Producer(bootstrap_servers=cluster.bootstrap, compression_type="gzip") as producer:
        producer.send_many(topic, [b"a" * 100] * 1000).result(SECONDS)
        producer.flush()  # the last delivery is told before its room is free again
        metrics = producer.metrics()
    assert metrics["record-send-total"] == 1000
    assert metrics["record-error-total"] == metrics["record-retry-total"] == 0
    assert 0 < metrics["compression-rate-avg"] < 0.5
    assert metrics["record-send-rate"] > 0
    assert metrics["request-latency-avg"] <= metrics["request-latency-max"]
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]


def test_a_producer_goes_on_after_a_batch_that_could_not_be_encoded(
    cluster: Target, new_topic: NewTopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    encode = Sender._encode

    def fail_once(*args: Any) -> bytearray:
        monkeypatch.setattr(Sender, "_encode", encode)
        raise MemoryError("no room to compress")

    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(topic, b"1").result(SECONDS)
        monkeypatch.setattr(Sender, "_encode", fail_once)
        with pytest.raises(KafkaError, match="no room to compress"):
            producer.send(topic, b"2").result(SECONDS)
        assert producer.send(topic, b"3").result(SECONDS).offset == 1
