"""``AsyncConsumer``: what the blocking form has not; transactions, leaders, restarts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import Producer as OtherProducer
from tests.client.conftest import NewTopicFactory, topic_factory
from tests.support.apache_kafka import ApacheKafkaCluster
from tests.support.target import Target

from moldau.client.consumer import (
    AsyncConsumer,
    ConsumerInterceptor,
    ConsumerRecord,
    ConsumerRecords,
    RebalanceListener,
)
from moldau.client.consumer.fetch.fetcher import Fetcher
from moldau.client.consumer.position_lookups import PositionLookups
from moldau.client.errors import ConcurrentAccessError, KafkaError, WakeupError
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.testing.broker import MoldauProcess

WAIT_S = 60.0
BATCH_BYTES = 16_384


def consumer_of(bootstrap: str, **settings: Any) -> AsyncConsumer:
    defaults = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100}
    return AsyncConsumer(bootstrap_servers=bootstrap, **{**defaults, **settings})


def write(bootstrap: str, topic: str, *values: bytes, partition: int = 0) -> None:
    producer = OtherProducer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.size": BATCH_BYTES}
    )
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_S) == 0


async def read(consumer: AsyncConsumer, count: int) -> list[bytes]:
    """At least that many values."""
    found: list[bytes] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            found += [record.value for record in (await consumer.poll(0.2)).records()]
    return found


async def test_async_iteration_and_coroutines_as_callbacks(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    sent = [b"%d" % number for number in range(10)]
    write(cluster.bootstrap, topic, *sent)
    told: list[str] = []

    class Listener(RebalanceListener):
        async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            assert len(await consumer.beginning_offsets(partitions)) == 1
            told.append("assigned")

        async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
            await consumer.commit({one: OffsetAndMetadata(7) for one in partitions})
            told.append("revoked")

    group = f"group-{uuid.uuid4().hex[:8]}"
    async with consumer_of(cluster.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic], listener=Listener())
        seen = []
        async for record in consumer:
            seen.append(record.value)
            if len(seen) == 10:
                break
        assert seen == sent
    assert told == ["assigned", "revoked"]
    async with consumer_of(cluster.bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        got: list[bytes] = []

        async def callback(record: ConsumerRecord) -> None:
            await asyncio.sleep(0)
            got.append(record.value)
            if len(got) == 3:
                consumer.wakeup()

        async with asyncio.timeout(WAIT_S):
            assert await consumer.consume_callback(callback) == 3
        assert got == sent[7:]


async def test_one_task_polls_and_others_may_do_the_rest(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    partition = TopicPartition(new_topic(), 0)
    async with consumer_of(cluster.bootstrap, group_id="none") as consumer:
        consumer.assign([partition])
        polling = asyncio.create_task(consumer.poll(WAIT_S))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentAccessError):
            await consumer.poll(0.0)
        assert await consumer.position(partition) == 0
        await consumer.commit({partition: OffsetAndMetadata(0)})
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await polling


async def test_iteration_ends_when_the_consumer_is_closed(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    consumer = consumer_of(cluster.bootstrap)
    consumer.assign([TopicPartition(new_topic(), 0)])

    async def iterate() -> int:
        return len([record async for record in consumer])

    task = asyncio.create_task(iterate())
    await asyncio.sleep(0.1)
    await consumer.close()
    assert await asyncio.wait_for(task, WAIT_S) == 0


async def test_memory_for_what_is_not_polled_is_bounded(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=4)
    for number in range(4):
        write(cluster.bootstrap, topic, *[b"x" * 1000] * 500, partition=number)
    async with consumer_of(
        cluster.bootstrap, queued_max_messages_kbytes=100, max_partition_fetch_bytes=50_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(4)])
        largest = seen = 0
        async with asyncio.timeout(WAIT_S):
            while seen < 2000:
                seen += (await consumer.poll(0.5, max_records=50)).count
                largest = max(largest, consumer._core.space.used)
        # The bound, and the first batch of an answer, which comes whole.
        assert largest <= 100 * 1024 + 2 * BATCH_BYTES
        assert seen == 2000


async def test_a_partition_may_go_as_its_fetch_begins(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=2)
    goes, comes = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for number in range(2):
        write(cluster.bootstrap, topic, b"%d" % number, partition=number)
    async with consumer_of(cluster.bootstrap) as consumer:
        consumer.assign([goes])
        assert await read(consumer, 1) == [b"0"]
        fetcher = consumer._core.fetcher
        consumer.pause(goes)
        async with asyncio.timeout(WAIT_S):
            while fetcher._busy:  # noqa: ASYNC110 - the last fetch ends by itself
                await asyncio.sleep(0.001)
        consumer.resume(goes)
        fetcher.step(asyncio.get_running_loop().time())
        assert fetcher._busy
        consumer.assign([comes])
        assert await read(consumer, 1) == [b"1"]


async def test_transactions_that_were_aborted_are_not_read(kafka: Target) -> None:
    topic = topic_factory(kafka.bootstrap)()
    partition = TopicPartition(topic, 0)
    producer = OtherProducer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": uuid.uuid4().hex}
    )
    producer.init_transactions(WAIT_S)
    for number in range(6):
        producer.begin_transaction()
        for value in range(3):
            producer.produce(topic, b"%d-%d" % (number, value), partition=0)
        producer.flush(WAIT_S)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(WAIT_S)
    committed = [b"%d-%d" % (number, value) for number in (0, 2, 4) for value in range(3)]
    async with consumer_of(kafka.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([partition])
        assert await read(consumer, 9) == committed
        (end,) = (await consumer.end_offsets([partition])).values()
        async with asyncio.timeout(WAIT_S):
            while await consumer.position(partition) != end:
                assert not await consumer.poll(0.1), "aborted"
        assert not await consumer.poll(0.3), "the last one is not decided yet"
        assert consumer.lag(partition) == 0
        producer.commit_transaction(WAIT_S)
        assert await read(consumer, 1) == [b"open"]
    async with consumer_of(kafka.bootstrap) as consumer:
        consumer.assign([partition])
        assert len(await read(consumer, 19)) == 19


async def test_a_restart_of_the_broker_is_waited_out(own_moldau: MoldauProcess) -> None:
    bootstrap = own_moldau.bootstrap_servers
    topic = topic_factory(bootstrap)(partitions=2)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    write(bootstrap, topic, b"before")
    async with consumer_of(bootstrap, group_id="g", reconnect_backoff_max_ms=200) as consumer:
        consumer.assign(partitions)
        assert await read(consumer, 1) == [b"before"]
        await asyncio.to_thread(own_moldau.kill)
        assert not await consumer.poll(0.5)
        await asyncio.to_thread(own_moldau.start)
        write(bootstrap, topic, b"after", partition=1)
        write(bootstrap, topic, b"after")
        assert await read(consumer, 2) == [b"after", b"after"]
        await consumer.commit()
        committed = await consumer.committed(partitions)
        assert [one.offset for one in committed.values() if one is not None] == [2, 1]


async def test_a_consumer_follows_the_leader_and_loses_nothing(
    kafka_cluster: ApacheKafkaCluster,
) -> None:
    bootstrap = kafka_cluster.bootstrap
    topic = topic_factory(bootstrap)(partitions=3, replication=3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    sent = {b"%d-%d" % (number, value) for number in range(3) for value in range(10)}
    for number in range(3):
        write(
            bootstrap, topic, *[b"%d-%d" % (number, value) for value in range(10)], partition=number
        )
    async with consumer_of(bootstrap, request_timeout_ms=5000) as consumer:
        consumer.assign(partitions)
        assert set(await read(consumer, 30)) == sent
        leaders = {info.leader for info in await consumer.partitions_for(topic)}
        await asyncio.to_thread(kafka_cluster.nodes[min(leaders)].kill)
        for number in range(3):
            await asyncio.to_thread(write, bootstrap, topic, b"later", partition=number)
        assert await read(consumer, 3) == [b"later"] * 3
        cluster = consumer._core.cluster
        async with asyncio.timeout(WAIT_S):
            # The broker that is asked may be the last to hear of it.
            while min(leaders) in {info.leader for info in await consumer.partitions_for(topic)}:
                await cluster.refresh([topic])


async def test_the_nearest_replica_is_read_from(kafka_cluster: ApacheKafkaCluster) -> None:
    bootstrap = kafka_cluster.bootstrap
    topic = topic_factory(bootstrap)(partitions=1, replication=3)
    write(bootstrap, topic, *[b"x"] * 10)
    async with consumer_of(bootstrap) as plain:
        plain.assign([TopicPartition(topic, 0)])
        await read(plain, 10)  # by now this consumer knows the topic
        (info,) = await plain.partitions_for(topic)
        racks = {node.id: node.rack for node in plain._core.cluster.metadata.nodes.values()}
    follower = next(node for node in info.replicas if node != info.leader)
    async with consumer_of(bootstrap, client_rack=racks[follower]) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await read(consumer, 10)
        async with asyncio.timeout(WAIT_S):
            while consumer._core.subscription.state(partition).preferred_replica != follower:
                await consumer.poll(0.05)
        await asyncio.to_thread(write, bootstrap, topic, b"y")
        assert await read(consumer, 1) == [b"y"]


async def test_nobody_there_is_an_empty_poll_and_an_error_of_questions() -> None:
    async with consumer_of("127.0.0.1:1", default_api_timeout_ms=300) as consumer:
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        assert not await consumer.poll(0.3)
        with pytest.raises(KafkaError):
            await consumer.position(partition)
        with pytest.raises(KafkaError):
            await consumer.end_offsets([partition])


class Polled(ConsumerInterceptor):
    """Tells when the first records are on their way to the user."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        self.event.set()
        return records


async def test_what_a_cancelled_batch_had_comes_again(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    write(cluster.bootstrap, topic, b"1", b"2")
    polled = Polled()
    async with consumer_of(cluster.bootstrap, interceptor_classes=[polled]) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        gathering = asyncio.create_task(consumer.consume_batch(3, WAIT_S))
        await asyncio.wait_for(polled.event.wait(), WAIT_S)
        gathering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gathering
        assert await read(consumer, 2) == [b"1", b"2"]


async def test_commits_do_not_count_what_a_batch_has_not_given_yet(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    write(cluster.bootstrap, topic, b"1", b"2")
    polled = Polled()
    async with consumer_of(
        cluster.bootstrap, group_id=uuid.uuid4().hex, interceptor_classes=[polled]
    ) as consumer:
        consumer.assign([partition])
        gathering = asyncio.create_task(consumer.consume_batch(3, 4 * WAIT_S))
        await asyncio.wait_for(polled.event.wait(), WAIT_S)
        await consumer.commit()
        (committed,) = (await consumer.committed([partition])).values()
        assert committed is not None
        assert committed.offset == 0
        write(cluster.bootstrap, topic, b"3")
        assert len(await gathering) == 3
        await consumer.commit()
        (committed,) = (await consumer.committed([partition])).values()
        assert committed is not None
        assert committed.offset == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_batch_is_given_before_its_partitions_go(
    cluster: Target, new_topic: NewTopicFactory, protocol: str
) -> None:
    topic = new_topic(partitions=2)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    for number in range(2):
        write(cluster.bootstrap, topic, b"1", b"2", partition=number)
    settings: dict[str, Any] = {"group_id": uuid.uuid4().hex, "group_protocol": protocol}
    if protocol == "classic":
        settings["heartbeat_interval_ms"] = 100
    polled = Polled()
    async with (
        consumer_of(cluster.bootstrap, interceptor_classes=[polled], **settings) as first,
        consumer_of(cluster.bootstrap, **settings) as second,
    ):
        first.subscribe([topic])
        second.subscribe([topic])
        # Never whole: it ends because the second member wants its share.
        gathering = asyncio.create_task(first.consume_batch(100, 20 * WAIT_S))
        await asyncio.wait_for(polled.event.wait(), WAIT_S)
        joining = asyncio.create_task(second.poll(2 * WAIT_S))
        batch = await asyncio.wait_for(gathering, 2 * WAIT_S)
        assert 0 < len(batch) <= 4
        committed = (await first.committed(partitions)).values()
        assert all(one is None or one.offset == 0 for one in committed)
        async with asyncio.timeout(2 * WAIT_S):
            while len(second.assignment()) != 1:
                batch += (await first.poll(0.1)).records()
            write(cluster.bootstrap, topic, b"3", partition=0)
            write(cluster.bootstrap, topic, b"3", partition=1)
            batch += (await joining).records()
            while len(batch) < 6:
                for consumer in (first, second):
                    batch += (await consumer.poll(0.1)).records()
        seen = sorted((record.partition, record.value) for record in batch)
        assert seen == [(number, value) for number in range(2) for value in (b"1", b"2", b"3")]


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (Fetcher, "_answered"),
        (Fetcher, "step"),
        (PositionLookups, "_initialize"),
    ],
)
async def test_a_fault_of_the_client_is_told_and_does_not_end_it(
    cluster: Target,
    new_topic: NewTopicFactory,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
) -> None:
    topic = new_topic()
    write(cluster.bootstrap, topic, b"one", b"two")
    real, faults = getattr(owner, method), [ZeroDivisionError("a fault")]

    def faulty(self: Any, *arguments: Any) -> Any:
        if faults:
            raise faults.pop()
        return real(self, *arguments)

    monkeypatch.setattr(owner, method, faulty)
    async with consumer_of(cluster.bootstrap, group_id=f"group-{uuid.uuid4().hex[:8]}") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(KafkaError, match="ZeroDivisionError: a fault"):
            await read(consumer, 1)
        assert await read(consumer, 2) == [b"one", b"two"]
