"""``Consumer``, the blocking form: every method, on Moldau and on Apache Kafka."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as OtherProducer
from tests.client.conftest import NewTopicFactory
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau import Producer
from moldau.client.consumer import (
    Assignor,
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    ConsumerRecords,
    RebalanceListener,
)
from moldau.client.consumer.assignors import RangeAssignor
from moldau.client.errors import (
    ClosedError,
    CommitFailedError,
    ConcurrentAccessError,
    ConfigError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    SerializationError,
    UnknownTopicError,
    WakeupError,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.testing.broker import MoldauProcess

WAIT_S = 60.0

NewConsumer = Callable[..., Consumer]


@pytest.fixture
def new_consumer(cluster: Target) -> Iterator[NewConsumer]:
    """Consumers of the test's cluster that start at the beginning; closed at the end."""
    made: list[Consumer] = []

    def make(**settings: Any) -> Consumer:
        defaults = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100}
        consumer = Consumer(bootstrap_servers=cluster.bootstrap, **{**defaults, **settings})
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(5.0)


def a_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def write(
    cluster: Target, topic: str, *values: bytes | None, partition: int = 0, **more: Any
) -> None:
    producer = OtherProducer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition, **more)
    assert producer.flush(WAIT_S) == 0


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """At least that many records."""
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        found += consumer.poll(0.2).records()
    return found


def values(records: Iterable[ConsumerRecord]) -> list[Any]:
    return [record.value for record in records]


def wait_for_assignment(consumer: Consumer, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while len(consumer.assignment()) != count:
        assert time.monotonic() < deadline, consumer.assignment()
        consumer.poll(0.05)


@contextmanager
def once_it_polls(consumer: Consumer, act: Callable[[], object]) -> Iterator[None]:
    """Act from another thread, as soon as this one is inside of a poll."""

    def wait_and_act() -> None:
        eventually(lambda: consumer._inner._polling)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    yield
    thread.join()


# -- reading


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_records_come_grouped_by_partition(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer, protocol: str
) -> None:
    topic = new_topic(partitions=3)
    for index in range(3):
        write(cluster, topic, *[b"%d" % number for number in range(5)], partition=index)
    consumer = new_consumer(group_id=a_group(), group_protocol=protocol)
    consumer.subscribe([topic])
    assert consumer.subscription() == {topic}
    seen: dict[TopicPartition, list[bytes]] = {}
    while sum(map(len, seen.values())) < 15:
        for partition, records in consumer.poll(WAIT_S).items():
            seen.setdefault(partition, []).extend(values(records))
    expected = [b"%d" % number for number in range(5)]
    assert seen == {TopicPartition(topic, number): expected for number in range(3)}
    assert consumer.assignment() == seen.keys()
    assert consumer.poll(0.0).count == 0


def test_a_record_has_everything_that_was_sent(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, b"v", key=b"k", headers=[("a", b"1"), ("a", None)], timestamp=1234)
    write(cluster, topic, None)
    consumer = new_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    first, second = read(consumer, 2)
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert (first.key, first.value, first.timestamp, first.timestamp_type) == (b"k", b"v", 1234, 0)
    assert first.headers == (("a", b"1"), ("a", None))
    assert first.leader_epoch == 0
    assert (second.offset, second.key, second.value, second.headers) == (1, None, None, ())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_codecs(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer, codec: str
) -> None:
    topic = new_topic()
    producer = OtherProducer(
        {"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    sent = [b"value %d " % number * 20 for number in range(200)]
    for value in sent:
        producer.produce(topic, value)
    producer.flush(WAIT_S)
    consumer = new_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    assert values(read(consumer, 200)) == sent


def test_poll_gives_no_more_than_asked_for_and_loses_nothing(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic(partitions=2)
    for partition in range(2):
        write(cluster, topic, *[b"%d" % number for number in range(50)], partition=partition)
    consumer = new_consumer(max_poll_records=7)
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    seen: dict[int, list[int]] = {0: [], 1: []}
    while sum(map(len, seen.values())) < 100:
        found = consumer.poll(WAIT_S)
        assert found.count <= 7
        for record in found.records():
            seen[record.partition].append(record.offset)
    assert seen == {0: list(range(50)), 1: list(range(50))}
    consumer.seek_to_beginning()
    assert consumer.poll(WAIT_S, max_records=3).count == 3


def test_records_larger_than_the_fetch_sizes_come_too(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, b"x" * 50_000, b"y" * 60_000, b"z")
    consumer = new_consumer(
        max_partition_fetch_bytes=100, fetch_max_bytes=100, queued_max_messages_kbytes=1
    )
    consumer.assign([TopicPartition(topic, 0)])
    assert [len(value) for value in values(read(consumer, 3))] == [50_000, 60_000, 1]


def test_batches_callbacks_and_iteration(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    sent = [b"%d" % number for number in range(30)]
    write(cluster, topic, *sent)
    consumer = new_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    assert values(consumer.consume_batch(10, WAIT_S)) == sent[:10]
    one_by_one = []
    for record in consumer:
        one_by_one.append(record.value)
        if len(one_by_one) == 20:
            break
    assert one_by_one == sent[10:]
    assert consumer.consume_batch(10, 0.05) == []
    consumer.seek_to_beginning()
    called: list[bytes] = []
    threads = set()

    def callback(record: ConsumerRecord) -> None:
        threads.add(threading.get_ident())
        called.append(record.value)
        if len(called) == 30:
            consumer.wakeup()

    assert consumer.consume_callback(callback) == 30
    assert (called, threads) == (sent, {threading.get_ident()})


def test_poll_arrow_has_the_same_records(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, b"a", b"b", key=b"k", timestamp=5000)
    write(cluster, topic, None, headers=[("h", b"x")])
    consumer = new_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    rows: list[dict[str, Any]] = []
    while len(rows) < 3:
        rows += consumer.poll_arrow(WAIT_S).to_pylist()
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert [row["value"] for row in rows] == [b"a", b"b", None]
    assert rows[0]["topic"] == topic
    assert (rows[0]["partition"], rows[0]["key"]) == (0, b"k")
    assert rows[0]["timestamp"].timestamp() == 5.0
    assert rows[2]["headers"] == [{"key": "h", "value": b"x"}]
    assert consumer.position(TopicPartition(topic, 0)) == 3
    assert consumer.poll_arrow(0.0).num_rows == 0


def test_a_pattern_finds_topics_that_come_later(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    first = new_topic()
    write(cluster, first, b"old")
    consumer = new_consumer(group_id=a_group(), metadata_max_age_ms=200)
    prefix = first[:15]
    consumer.subscribe(pattern=re.compile(f"{prefix}.*"))
    assert values(read(consumer, 1)) == [b"old"]
    later = f"{prefix}-later"
    write(cluster, later, b"new")  # creates the topic
    assert values(read(consumer, 1)) == [b"new"]
    assert consumer.subscription() == {first, later}


def test_the_coordinator_evaluates_patterns_under_the_consumer_protocol(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, b"found")
    consumer = new_consumer(group_id=a_group(), group_protocol="consumer")
    consumer.subscribe(pattern=f"{topic[:-1]}.")
    assert values(read(consumer, 1)) == [b"found"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_topics_that_do_not_exist_yet_are_waited_for(
    cluster: Target,
    new_consumer: NewConsumer,
    protocol: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = f"later-{uuid.uuid4().hex[:8]}"
    consumer = new_consumer(
        group_id=a_group(),
        allow_auto_create_topics=False,
        group_protocol=protocol,
        retry_backoff_max_ms=100,
    )
    looks: list[object] = []
    consumer._inner._core.cluster.on_update.append(looks.append)
    consumer.subscribe([topic])
    eventually(lambda: not consumer.poll(0.1) and len(looks) > 3)
    told = [line for line in caplog.messages if topic in line and "does not exist" in line]
    assert told == [
        f"topic '{topic}' does not exist, and allow.auto.create.topics is false; it is waited for"
    ]
    write(cluster, topic, b"here")
    assert values(read(consumer, 1)) == [b"here"]


def test_a_topic_that_is_missing_does_not_hold_up_the_others(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    there, missing = TopicPartition(new_topic(), 0), TopicPartition(f"no-{a_group()}", 0)
    write(cluster, there.topic, b"here")
    consumer = new_consumer(
        group_id=a_group(), allow_auto_create_topics=False, enable_auto_commit=False
    )
    consumer.assign([there, missing])
    assert values(read(consumer, 1)) == [b"here"]
    offsets = {there: OffsetAndMetadata(1), missing: OffsetAndMetadata(1)}
    with pytest.raises(UnknownTopicError, match=f"Topic '{missing.topic}' has no partition 0"):
        consumer.commit(offsets)
    assert consumer.committed(offsets) == {there: OffsetAndMetadata(1), missing: None}


def test_a_topic_that_nobody_can_have_is_an_error(new_consumer: NewConsumer) -> None:
    consumer = new_consumer(group_id=a_group())
    consumer.subscribe(["not a topic"])
    with pytest.raises(KafkaError, match="Topic 'not a topic': ") as raised:
        consumer.poll(WAIT_S)
    assert raised.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_rebalance_can_be_enforced(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    told: list[str] = []

    class Listener(RebalanceListener):
        def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
            told.append(f"revoked {len(partitions)}")

        def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            told.append(f"assigned {len(partitions)}")

    consumer = new_consumer(group_id=a_group(), partition_assignment_strategy="range")
    consumer.subscribe([new_topic(partitions=2)], listener=Listener())
    wait_for_assignment(consumer, 2)
    generation = consumer.group_metadata().generation_id
    consumer.enforce_rebalance("the test wants it")
    eventually(lambda: not consumer.poll(0.05) and len(told) == 3)
    assert told == ["assigned 2", "revoked 2", "assigned 2"]
    assert consumer.group_metadata().generation_id > generation


def test_a_rebalance_is_not_enforced_where_the_coordinator_decides(
    new_consumer: NewConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    new_consumer(group_id=a_group(), group_protocol="consumer").enforce_rebalance()
    assert "enforce_rebalance() does nothing" in caplog.text
    with pytest.raises(KafkaError, match=r"enforce_rebalance\(\) needs a group\.id"):
        new_consumer().enforce_rebalance()


# -- where to go on


def test_seeks_and_positions(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, *[b"%d" % number for number in range(10)])
    partition = TopicPartition(topic, 0)
    consumer = new_consumer()
    consumer.assign([partition])
    assert consumer.position(partition) == 0
    consumer.seek(partition, 7)
    assert consumer.position(partition) == 7
    assert values(read(consumer, 3)) == [b"7", b"8", b"9"]
    consumer.seek_to_beginning(partition)
    assert consumer.position(partition) == 0
    consumer.seek_to_end(partition)
    assert consumer.position(partition) == 10
    consumer.seek(partition, OffsetAndMetadata(9, leader_epoch=0))
    assert values(read(consumer, 1)) == [b"9"]
    with pytest.raises(ValueError, match="negative"):
        consumer.seek(partition, -1)
    with pytest.raises(ValueError, match="not assigned"):
        consumer.seek(TopicPartition(topic, 1), 0)


def test_what_is_buffered_is_void_after_a_seek(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, *[b"%d" % number for number in range(20)])
    partition = TopicPartition(topic, 0)
    consumer = new_consumer(fetch_max_wait_ms=10)
    consumer.assign([partition])
    for _ in range(20):
        consumer.seek(partition, 5)
        (record,) = consumer.poll(WAIT_S, max_records=1).records()
        assert record.offset == 5


def test_offsets_can_be_looked_up(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    for number in range(3):
        write(cluster, topic, b"%d" % number, timestamp=1000 * (number + 1))
    partition = TopicPartition(topic, 0)
    consumer = new_consumer()
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    found = consumer.offsets_for_times({partition: 1500})[partition]
    assert found is not None
    assert (found.offset, found.timestamp) == (1, 2000)
    assert consumer.offsets_for_times({partition: 9999}) == {partition: None}
    assert [info.partition for info in consumer.partitions_for(topic)] == [0]
    assert topic in consumer.topics()


def test_paused_partitions_give_nothing_and_lose_nothing(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic(partitions=2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = new_consumer()
    consumer.assign([zero, one])
    consumer.pause(zero)
    assert consumer.paused() == {zero}
    for partition in (0, 1):
        write(cluster, topic, b"a", b"b", partition=partition)
    assert {record.partition for record in read(consumer, 2)} == {1}
    assert not consumer.poll(0.3)
    consumer.resume(zero)
    assert [(record.partition, record.offset) for record in read(consumer, 2)] == [(0, 0), (0, 1)]


def test_lag_is_what_is_left(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, *[b"x"] * 10)
    partition = TopicPartition(topic, 0)
    consumer = new_consumer()
    consumer.assign([partition])
    assert consumer.lag(partition) is None
    consumer.poll(WAIT_S, max_records=4)
    assert consumer.lag(partition) == 6
    assert consumer.metrics()["records-lag-max"] == 6
    assert consumer.metrics()["records-consumed-total"] == 4


def test_where_to_start_without_a_committed_offset(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    now = int(time.time() * 1000)
    write(cluster, topic, b"two hours ago", timestamp=now - 7_200_000)
    write(cluster, topic, b"now", timestamp=now)
    latest = new_consumer(auto_offset_reset="latest")
    latest.assign([partition])
    assert latest.position(partition) == 2
    hour = new_consumer(auto_offset_reset="by_duration:PT1H")
    hour.assign([partition])
    assert values(read(hour, 1)) == [b"now"]
    none = new_consumer(auto_offset_reset="none", group_id=a_group())
    none.assign([partition])
    with pytest.raises(NoOffsetForPartitionError) as caught:
        none.poll(WAIT_S)
    assert caught.value.partitions == {partition}
    none.seek(partition, 1)
    assert values(read(none, 1)) == [b"now"]


def test_offsets_out_of_range(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    write(cluster, topic, b"a", b"b")
    strict = new_consumer(auto_offset_reset="none")
    strict.assign([partition])
    strict.seek(partition, 100)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        strict.poll(WAIT_S)
    assert caught.value.partitions == {partition: 100}
    strict.seek(partition, 0)
    assert values(read(strict, 2)) == [b"a", b"b"]
    lenient = new_consumer(auto_offset_reset="earliest")
    lenient.assign([partition])
    lenient.seek(partition, 100)
    assert values(read(lenient, 2)) == [b"a", b"b"]


# -- committing


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_are_where_the_next_one_goes_on(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer, protocol: str
) -> None:
    topic, group = new_topic(), a_group()
    partition = TopicPartition(topic, 0)
    write(cluster, topic, *[b"%d" % number for number in range(10)])
    settings = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": False}
    first = new_consumer(**settings)
    first.subscribe([topic])
    assert first.committed([partition]) == {partition: None}
    read(first, 10)
    first.commit({partition: OffsetAndMetadata(3, "a note")})
    committed = first.committed([partition])[partition]
    assert committed is not None
    assert (committed.offset, committed.metadata) == (3, "a note")
    outcomes: list[tuple[Any, Any]] = []
    first.commit_async({partition: OffsetAndMetadata(4)}, lambda *args: outcomes.append(args))
    while not outcomes:
        first.poll(0.02)
    assert outcomes == [({partition: OffsetAndMetadata(4)}, None)]
    first.close()
    second = new_consumer(**settings)
    second.subscribe([topic])
    assert read(second, 6)[0].offset == 4
    second.commit_sync()  # as Kafka's own client calls it
    committed = second.committed([partition])[partition]
    assert committed is not None
    assert (committed.offset, committed.leader_epoch) == (10, 0)
    second.commit_sync({partition: 7})
    second.commit_async(lambda *args: outcomes.append(args))
    while len(outcomes) < 2:
        second.poll(0.02)
    assert outcomes[1] == ({partition: committed}, None)
    assert second.committed([partition]) == {partition: committed}
    with pytest.raises(TypeError, match="not two callbacks"):
        second.commit_async(print, print)


def test_automatic_commits_happen_in_time_and_at_the_end(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic, group = new_topic(), a_group()
    partition = TopicPartition(topic, 0)
    write(cluster, topic, *[b"%d" % number for number in range(10)])
    observer = new_consumer(group_id=group)
    consumer = new_consumer(group_id=group, auto_commit_interval_ms=20, max_poll_records=4)
    consumer.subscribe([topic])
    read(consumer, 4)
    assert observer.committed([partition]) == {partition: None}, "it may still be at work"
    deadline = time.monotonic() + WAIT_S
    while (found := observer.committed([partition])[partition]) is None:
        assert time.monotonic() < deadline
        consumer.poll(0.02, max_records=1)
    assert found.offset >= 4
    position = consumer.position(partition)
    consumer.close()
    last = observer.committed([partition])[partition]
    assert last is not None
    assert last.offset == position


def test_only_stored_offsets_are_committed_if_asked_for(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic, group = new_topic(), a_group()
    partition = TopicPartition(topic, 0)
    write(cluster, topic, *[b"%d" % number for number in range(10)])
    consumer = new_consumer(group_id=group, enable_auto_offset_store=False)
    consumer.subscribe([topic])
    read(consumer, 10)
    consumer.store_offset(partition, 6)
    consumer.close()
    observer = new_consumer(group_id=group)
    committed = observer.committed([partition])[partition]
    assert committed is not None
    assert committed.offset == 6
    with pytest.raises(ValueError, match=r"enable\.auto\.offset\.store"):
        observer.store_offset(partition, 1)


def test_a_commit_by_somebody_who_is_no_member_fails(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, b"x")
    consumer = new_consumer(group_id=a_group(), max_poll_interval_ms=200, enable_auto_commit=False)
    consumer.subscribe([topic])
    read(consumer, 1)
    failure: KafkaError | None = None
    deadline = time.monotonic() + WAIT_S
    while failure is None:  # until the time between polls is too long
        assert time.monotonic() < deadline
        try:
            consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0)})
        except CommitFailedError as error:
            failure = error
    assert not failure.retriable
    assert read(consumer, 1)[0].offset == 0, "it joins again and starts where the group is"


def test_group_metadata_names_the_member(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic, group = new_topic(), a_group()
    consumer = new_consumer(group_id=group)
    assert consumer.group_metadata() == (group, -1, "", None)
    consumer.subscribe([topic])
    wait_for_assignment(consumer, 1)
    metadata = consumer.group_metadata()
    assert (metadata.group_id, metadata.generation_id > 0) == (group, True)
    assert metadata.member_id.startswith("moldau")


# -- groups


class Recorder(RebalanceListener):
    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.threads: set[int] = set()

    def _note(self, what: str, partitions: Collection[TopicPartition]) -> None:
        self.threads.add(threading.get_ident())
        self.events.append((what, len(partitions)))

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._note("lost", partitions)


STRATEGIES: dict[str, dict[str, Any]] = {
    "range": {"partition_assignment_strategy": ["range"]},
    "roundrobin": {"partition_assignment_strategy": ["roundrobin"]},
    "sticky": {"partition_assignment_strategy": ["sticky"]},
    "cooperative-sticky": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "ceil": {"partition_assignment_strategy": ["ceil"]},
    "consumer protocol": {"group_protocol": "consumer"},
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_consumers_share_and_one_takes_over(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer, strategy: str
) -> None:
    topic = new_topic(partitions=4)
    settings = {"group_id": a_group(), "heartbeat_interval_ms": 100, **STRATEGIES[strategy]}
    if "group_protocol" in settings:
        del settings["heartbeat_interval_ms"]
    first, second = new_consumer(**settings), new_consumer(**settings)
    ours, theirs = Recorder(), Recorder()
    first.subscribe([topic], listener=ours)
    wait_for_assignment(first, 4)
    assert ours.events[-1] == ("assigned", 4)
    second.subscribe([topic], listener=theirs)
    deadline = time.monotonic() + WAIT_S
    while not len(first.assignment()) == len(second.assignment()) == 2:
        assert time.monotonic() < deadline, (first.assignment(), second.assignment())
        first.poll(0.02)
        second.poll(0.02)
    assert first.assignment().isdisjoint(second.assignment())
    gives_up_all = strategy in ("range", "roundrobin", "sticky", "ceil")
    assert ("revoked", 4 if gives_up_all else 2) in ours.events
    second.close()
    assert theirs.events[-1] == ("revoked", 2)
    wait_for_assignment(first, 4)
    assert ours.threads == {threading.get_ident()}


def test_a_listener_may_seek_and_commit(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic, group = new_topic(), a_group()
    write(cluster, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)

    class Listener(RebalanceListener):
        def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            for one in partitions:
                consumer.seek(one, 2)

        def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
            consumer.commit({one: OffsetAndMetadata(1) for one in partitions})

    consumer = new_consumer(group_id=group, enable_auto_commit=False)
    consumer.subscribe([topic], listener=Listener())
    assert values(read(consumer, 1)) == [b"c"]
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    committed = consumer.committed([partition])[partition]
    assert committed is not None
    assert committed.offset == 1


def test_what_a_listener_raises_comes_out_of_poll(
    new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    class Listener(RebalanceListener):
        def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            raise RuntimeError("no thanks")

    consumer = new_consumer(group_id=a_group())
    consumer.subscribe([new_topic()], listener=Listener())
    with pytest.raises(RuntimeError, match="no thanks"):
        consumer.poll(WAIT_S)
    assert len(consumer.assignment()) == 1


def test_an_assignor_of_the_users_own(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    class LastOnly(Assignor):
        name = "last-only"

        def assign(self, layout: Any, members: Any) -> Any:
            plan = RangeAssignor().assign(layout, members)
            return {name: mine[-1:] for name, mine in plan.items()}

    topic = new_topic(partitions=3)
    consumer = new_consumer(group_id=a_group(), partition_assignment_strategy=[LastOnly])
    consumer.subscribe([topic])
    wait_for_assignment(consumer, 1)
    assert consumer.assignment() == {TopicPartition(topic, 2)}


def test_an_assignor_that_fails_is_an_error_of_poll(
    new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    class Broken(Assignor):
        name = "broken"

        def assign(self, layout: Any, members: Any) -> Any:
            raise RuntimeError("cannot decide")

    consumer = new_consumer(group_id=a_group(), partition_assignment_strategy=[Broken])
    consumer.subscribe([new_topic()])
    with pytest.raises(KafkaError, match="cannot decide"):
        consumer.poll(WAIT_S)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_comes_back_to_its_partitions(
    new_topic: NewTopicFactory, new_consumer: NewConsumer, protocol: str
) -> None:
    topic = new_topic(partitions=4)
    settings: dict[str, Any] = {"group_id": a_group(), "group_protocol": protocol}
    if protocol == "classic":
        settings["heartbeat_interval_ms"] = 100
    first = new_consumer(**settings, group_instance_id="one")
    second = new_consumer(**settings, group_instance_id="two")
    listener = Recorder()
    first.subscribe([topic], listener=listener)
    second.subscribe([topic])
    deadline = time.monotonic() + WAIT_S
    while not len(first.assignment()) == len(second.assignment()) == 2:
        assert time.monotonic() < deadline
        first.poll(0.02)
        second.poll(0.02)
    seen, share = list(listener.events), second.assignment()
    second.close()
    back = new_consumer(**settings, group_instance_id="two")
    back.subscribe([topic])
    while back.assignment() != share:
        assert time.monotonic() < deadline
        first.poll(0.02)
        back.poll(0.02)
    assert listener.events == seen, "nobody else noticed"


def test_a_static_member_is_fenced_by_its_successor(
    new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    settings = {
        "group_id": a_group(),
        "group_instance_id": "one",
        "heartbeat_interval_ms": 50,
        "enable_auto_commit": False,
    }
    first, second = new_consumer(**settings), new_consumer(**settings)
    first.subscribe([topic])
    wait_for_assignment(first, 1)
    second.subscribe([topic])
    wait_for_assignment(second, 1)
    failure: KafkaError | None = None
    deadline = time.monotonic() + WAIT_S
    while failure is None:
        assert time.monotonic() < deadline
        try:
            first.poll(0.05)
        except KafkaError as error:
            failure = error
    assert failure.code == ErrorCode.FENCED_INSTANCE_ID
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        first.poll(0.05)
    assert len(second.assignment()) == 1
    second.commit()


def test_partitions_that_are_added_are_found(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    from moldau.client.admin import Admin

    topic = new_topic(partitions=1)
    consumer = new_consumer(group_id=a_group(), metadata_max_age_ms=200)
    consumer.subscribe([topic])
    wait_for_assignment(consumer, 1)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_partitions({topic: 3})
    wait_for_assignment(consumer, 3)


# -- what surrounds it


FIRST_LINES = """
from moldau import Consumer, Producer

with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
    future = producer.send("greetings", key=b"en", value=b"hello")
    print(future.result(timeout=10).offset)

with Consumer(bootstrap_servers="127.0.0.1:9092", group_id="readers", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["greetings"])
    for partition, records in consumer.poll(timeout=1.0).items():
        for record in records:
            print(record.offset, record.key, record.value)
"""  # noqa: E501


def test_the_first_lines_that_a_user_writes(
    cluster: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = FIRST_LINES.replace("127.0.0.1:9092", cluster.bootstrap)
    lines = re.sub(r"timeout=(1\.0|10)\b", "timeout=60", lines)  # a busy machine gets more time
    lines = lines.replace("greetings", f"greetings-{uuid.uuid4().hex[:8]}")
    lines = lines.replace("readers", a_group())
    exec(lines, {})
    assert capsys.readouterr().out == "0\n0 b'en' b'hello'\n"


def test_deserializers_and_the_record_they_fail_on(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    write(cluster, topic, b'{"a": 1}', b"{broken", None, b"[2]", key=b"k\xc3\xbc")
    consumer = new_consumer(key_deserializer="str", value_deserializer="json")
    consumer.assign([partition])
    (first,) = read(consumer, 1)
    assert (first.key, first.value) == ("kü", {"a": 1})
    for _ in range(2):
        with pytest.raises(SerializationError, match=rf"{topic}-0 offset 1 "):
            consumer.poll(WAIT_S)
    consumer.seek(partition, 2)
    assert values(read(consumer, 2)) == [None, [2]]


def test_interceptors_see_records_and_commits_and_may_fail(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    committed: list[Any] = []

    class Filter(ConsumerInterceptor):
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            return ConsumerRecords(
                {key: [one for one in rows if one.value != b"b"] for key, rows in records.items()}
            )

        def on_commit(self, offsets: Any) -> None:
            committed.append(dict(offsets))

    class Broken(ConsumerInterceptor):
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            raise RuntimeError("oops")

    topic = new_topic()
    write(cluster, topic, b"a", b"b", b"c")
    consumer = new_consumer(
        group_id=a_group(), enable_auto_commit=False, interceptor_classes=[Broken, Filter]
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    assert values(read(consumer, 2)) == [b"a", b"c"]
    consumer.commit()
    assert committed == [{partition: OffsetAndMetadata(3, "", 0)}]


def test_wakeup_ends_a_poll(new_topic: NewTopicFactory, new_consumer: NewConsumer) -> None:
    consumer = new_consumer()
    consumer.assign([TopicPartition(new_topic(), 0)])
    with once_it_polls(consumer, consumer.wakeup), pytest.raises(WakeupError):
        consumer.poll(WAIT_S)
    assert not consumer.poll(0.0), "once"
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(WAIT_S)


def test_ctrl_c_ends_a_poll_and_the_consumer_goes_on(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    consumer = new_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    assert not consumer.poll(0.0)
    main = threading.main_thread().ident
    assert main is not None
    with (
        once_it_polls(consumer, lambda: signal.pthread_kill(main, signal.SIGINT)),
        pytest.raises(KeyboardInterrupt),
    ):
        consumer.poll(WAIT_S)
    write(cluster, topic, b"after")
    assert values(read(consumer, 1)) == [b"after"]


def test_what_an_interrupted_poll_took_is_given_again(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, *[b"%d" % number for number in range(10)])
    consumer = new_consumer(max_poll_records=4)
    consumer.assign([TopicPartition(topic, 0)])
    assert values(read(consumer, 4)) == [b"0", b"1", b"2", b"3"]
    assert values(read(consumer, 4)) == [b"4", b"5", b"6", b"7"]
    consumer._inner._core.handover.rewind(0)
    assert values(read(consumer, 4)) == [b"4", b"5", b"6", b"7"]


def test_what_a_loop_left_is_not_taken_up_by_another_assignment(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    partition = TopicPartition(new_topic(), 0)
    write(cluster, partition.topic, b"0", b"1", b"2", b"3")
    consumer = new_consumer(group_id=a_group(), enable_auto_commit=False)
    consumer.assign([partition])
    for record in consumer:
        if record.value == b"1":
            break
    consumer.unsubscribe()
    consumer.assign([partition])
    assert values(read(consumer, 4))[0] == b"0", "nothing is committed"


def test_a_consumer_that_nobody_closed_does_not_keep_a_program_from_ending(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    program = (
        "from moldau import Consumer\n"
        f"consumer = Consumer(bootstrap_servers={cluster.bootstrap!r}, group_id={a_group()!r})\n"
        f"consumer.subscribe([{new_topic()!r}])\n"
        "while not consumer.assignment():\n"
        "    consumer.poll(0.1)\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_two_threads_at_once_are_told_so(
    new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    consumer = new_consumer()
    partition = TopicPartition(new_topic(), 0)
    consumer.assign([partition])

    def poll_until_woken() -> None:
        with pytest.raises(WakeupError):
            consumer.poll(WAIT_S)

    polling = threading.Thread(target=poll_until_woken)
    polling.start()
    eventually(lambda: consumer._inner._polling)
    for _ in range(3):
        with pytest.raises(ConcurrentAccessError):
            consumer.pause(partition)
    consumer.wakeup()
    polling.join()
    consumer.resume(partition)


def test_topics_patterns_and_partitions_exclude_each_other(
    new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    consumer = new_consumer(group_id=a_group())
    consumer.subscribe([topic])
    with pytest.raises(ValueError, match="unsubscribe"):
        consumer.assign([TopicPartition(topic, 0)])
    with pytest.raises(ValueError, match="unsubscribe"):
        consumer.subscribe(pattern="x")
    consumer.unsubscribe()
    consumer.assign([TopicPartition(topic, 0)])
    with pytest.raises(TypeError, match="list of names"):
        consumer.subscribe(topic)
    with pytest.raises(KafkaError, match=r"needs a group\.id"):
        new_consumer().subscribe([topic])
    with pytest.raises(KafkaError, match="nothing to poll"):
        new_consumer().poll()


def test_a_closed_consumer_says_so(new_topic: NewTopicFactory, new_consumer: NewConsumer) -> None:
    consumer = new_consumer()
    consumer.assign([TopicPartition(new_topic(), 0)])
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll()


def test_settings_that_make_no_sense_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="fair"):
        Consumer(
            bootstrap_servers="127.0.0.1:1",
            group_id="g",
            partition_assignment_strategy=["fair"],
        )
    with pytest.raises(ConfigError, match="duration"):
        Consumer(bootstrap_servers="127.0.0.1:1", auto_offset_reset="by_duration:1h")


def test_the_first_poll_waits_until_the_group_has_formed(tmp_path: Path) -> None:
    """With the delay that brokers have by default, longer than the timeout of the poll."""
    delay = {"group.initial.rebalance.delay.ms": "1200", "offsets.topic.num.partitions": "1"}
    with MoldauProcess(tmp_path, overrides=delay, start_timeout=120) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("late", b"hello").result(WAIT_S)

        def second_poll() -> list[Any]:
            with Consumer(
                bootstrap_servers=broker.bootstrap_servers,
                group_id=a_group(),
                auto_offset_reset="earliest",
            ) as consumer:
                consumer.subscribe(["late"])
                assert not consumer.poll(timeout=0)
                return values(consumer.poll(timeout=1.0).records())

        # On a busy machine the record itself may take longer, now and then.
        assert [b"hello"] in (second_poll() for _ in range(5))


def test_who_leaves_a_loop_has_consumed_what_was_given_and_no_more(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic(partitions=2)
    sent = [b"%d" % number for number in range(10)]
    write(cluster, topic, *sent[:5], partition=0)
    write(cluster, topic, *sent[5:], partition=1)
    group = f"group-{uuid.uuid4().hex[:8]}"
    seen: list[bytes] = []
    first = new_consumer(group_id=group)
    first.subscribe([topic])
    for record in first:
        seen.append(record.value)
        break
    seen += values(first.consume_batch(2, WAIT_S))
    for record in first:
        seen.append(record.value)
        if len(seen) == 5:
            break
    first.close()
    second = new_consumer(group_id=group)
    second.subscribe([topic])
    for record in second:
        seen.append(record.value)
        if len(seen) == 10:
            break
    assert sorted(seen) == sent
    assert second.consume_batch(1, 0.05) == []


def test_a_seek_inside_of_a_loop_wins_over_what_was_polled(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    where = TopicPartition(new_topic(), 0)
    write(cluster, where.topic, b"0", b"1", b"2", b"3")
    consumer = new_consumer()
    consumer.assign([where])
    seen: list[bytes] = []
    for record in consumer:
        seen.append(record.value)
        if len(seen) == 1:
            consumer.seek(where, 2)
        if len(seen) == 3:
            break
    assert seen == [b"0", b"2", b"3"]


def test_a_record_whose_callback_fails_is_not_consumed(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, b"0", b"1", b"2")
    group = f"group-{uuid.uuid4().hex[:8]}"

    def callback(record: ConsumerRecord) -> None:
        if record.offset == 1:
            raise RuntimeError("not this one")

    consumer = new_consumer(group_id=group)
    consumer.subscribe([topic])
    with pytest.raises(RuntimeError):
        consumer.consume_callback(callback)
    consumer.close()
    other = new_consumer(group_id=group)
    other.subscribe([topic])
    assert values(other.consume_batch(2, WAIT_S)) == [b"1", b"2"]


def test_a_batch_ends_before_an_error_and_the_next_call_raises_it(
    cluster: Target, new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic()
    write(cluster, topic, b"1", b"2", b"{")
    consumer = new_consumer(value_deserializer="json")
    consumer.assign([TopicPartition(topic, 0)])
    assert values(consumer.consume_batch(3, WAIT_S)) == [1, 2]
    with pytest.raises(SerializationError):
        consumer.consume_batch(3, WAIT_S)


def test_arguments_of_the_wrong_kind_are_named(new_consumer: NewConsumer) -> None:
    consumer = new_consumer()
    with pytest.raises(TypeError, match="TopicPartition is needed, not"):
        consumer.assign(["t0"])  # type: ignore[list-item]
    where = TopicPartition("t", 0)
    consumer.assign([where])
    with pytest.raises(TypeError, match="a TopicPartition is needed"):
        consumer.pause([where])  # type: ignore[arg-type]


def test_offsets_are_committed_with_or_without_metadata(
    new_topic: NewTopicFactory, new_consumer: NewConsumer
) -> None:
    topic = new_topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = new_consumer(group_id=f"group-{uuid.uuid4().hex[:8]}")
    consumer.commit({first: 3, second: OffsetAndMetadata(4, "note")})
    committed = consumer.committed([first, second])
    assert [(one.offset, one.metadata) for one in committed.values() if one] == [
        (3, ""),
        (4, "note"),
    ]
