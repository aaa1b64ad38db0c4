"""What clients see of a partition with several replicas: who leads instead, what is not known yet,
what followers still have to do.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, one_batch
from tests.unit.broker.harness import ELSEWHERE, HERE, REGISTRATION, TOPIC_ID, Link, led

from moldau.broker.handlers.produce import MOST_WAITING
from moldau.controller import MetadataUpdate
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.errors import ErrorCode
from moldau.model import Node
from moldau.replication import Partition
from moldau.wire.api import ApiKey
from moldau.wire.fetch import FetchPartition

OTHER = BrokerRegistration(ELSEWHERE, (Endpoint("PLAINTEXT", "elsewhere", 9093),), "rack", epoch=70)
OTHER_NODE = Node(ELSEWHERE, "elsewhere", 9093, "rack")
PLENTY = 1 << 20
MOVED = led("r", leader=ELSEWHERE, epoch=1, isr=(ELSEWHERE, HERE))


@pytest.fixture
async def link(broker: MemoryBroker) -> Link:
    """A partition "r" that this broker leads and another one follows."""
    link = Link(broker)
    state = led("r", isr=(HERE, ELSEWHERE))
    await link.update(
        metadata=MetadataUpdate(brokers=(REGISTRATION, OTHER), partitions=(state,)),
    )
    return link


@pytest.fixture
def partition(broker: MemoryBroker, link: Link) -> Partition:
    return broker.partition("r")


def follow(partition: Partition, offset: int, log_start: int = 0) -> None:
    partition.read(
        offset,
        PLENTY,
        follower_id=ELSEWHERE,
        follower_epoch=OTHER.epoch,
        follower_log_start=log_start,
    )


# Who leads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [9, 10, 12])
async def test_whoever_produces_to_the_wrong_broker_is_told_the_right_one(
    client: WireClient, link: Link, version: int
) -> None:
    await link.update(MOVED)
    sent = client.send_produce({"r": {0: one_batch(b"v")}}, version=version)
    answer = await client.receive_produce(sent, version)
    ((_, _, (result,)),) = answer.topics
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    hints = (result.current_leader, answer.node_endpoints)
    assert hints == (((ELSEWHERE, 1), [OTHER_NODE]) if version >= 10 else (None, []))


async def test_an_append_that_waits_when_the_leader_moves_is_told_where_to(
    broker: MemoryBroker, client: WireClient, link: Link
) -> None:
    sent = client.send_produce({"r": {0: one_batch(b"v")}})
    await broker.settle()
    await link.update(MOVED)
    answer = await client.receive_produce(sent)
    ((_, _, (result,)),) = answer.topics
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.current_leader, answer.node_endpoints) == ((ELSEWHERE, 1), [OTHER_NODE])


async def test_appends_to_many_partitions_that_wait_are_not_piled_up(
    broker: MemoryBroker, client: WireClient, link: Link
) -> None:
    """A client may give them as long as it likes, and followers may stand still so long."""
    many = range(200)
    states = tuple(led("r", number, isr=(HERE, ELSEWHERE)) for number in many)
    await link.update(*states, metadata=MetadataUpdate(partitions=states))
    sent = [
        client.send_produce({"r": {number: one_batch(b"v") for number in many}}) for _ in range(50)
    ]
    partitions = [broker.partition("r", number) for number in many]
    await broker.settle()
    assert {each.log.log_end_offset for each in partitions} == {MOST_WAITING // len(many) + 2}
    while any(each.high_watermark < len(sent) for each in partitions):
        for each in partitions:
            follow(each, each.log.log_end_offset)
        await broker.settle()
    for correlation_id in sent:
        answer = await client.receive_produce(correlation_id)
        assert {result.error_code for result in answer.topics[0][2]} == {ErrorCode.NONE}


@pytest.mark.parametrize("version", [12, 15, 16, 17])
async def test_whoever_fetches_from_the_wrong_broker_is_told_the_right_one(
    client: WireClient, link: Link, version: int
) -> None:
    await link.update(MOVED)
    topic = "r" if version < 13 else TOPIC_ID
    answer = await client.fetch_all({topic: {0: 0}}, version=version)
    ((_, _, (result,)),) = answer.topics
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result.current_leader == (ELSEWHERE, 1)
    assert answer.node_endpoints == ([OTHER_NODE] if version >= 16 else [])


async def test_whoever_fetches_with_an_old_epoch_is_told_the_new_one(
    client: WireClient, link: Link
) -> None:
    await link.update(led("r", epoch=3, isr=(HERE, ELSEWHERE)))
    older = FetchPartition(0, 2, 0, -1, -1, PLENTY)
    answer = await client.fetch_all({TOPIC_ID: {0: older}}, version=16)
    ((_, _, (result,)),) = answer.topics
    assert result.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert result.current_leader == (HERE, 3)
    assert [node.id for node in answer.node_endpoints] == [HERE]


async def test_no_endpoint_is_told_of_a_leader_that_is_not_there(
    client: WireClient, link: Link
) -> None:
    gone = MetadataUpdate(brokers=(REGISTRATION,), partitions=(MOVED,))
    await link.update(metadata=gone)
    answer = await client.fetch_all({TOPIC_ID: {0: 0}}, version=16)
    ((_, _, (result,)),) = answer.topics
    assert (result.current_leader, answer.node_endpoints) == ((ELSEWHERE, 1), [])


async def test_a_follower_tells_the_producers_that_it_knows(client: WireClient, link: Link) -> None:
    batch = one_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
    await client.receive_produce(client.send_produce({"r": {0: batch}}, acks=1))
    await link.update(MOVED)
    answer = await client.call(
        ApiKey.DESCRIBE_PRODUCERS, topics=[{"name": "r", "partition_indexes": [0]}]
    )
    (found,) = answer.topics[0].partitions
    assert found.error_code is ErrorCode.NONE
    assert [producer.producer_id for producer in found.active_producers] == [7]


@pytest.mark.parametrize(
    ("version", "described"),
    [
        (0, (ErrorCode.REPLICA_NOT_AVAILABLE, HERE, (HERE,), (HERE,))),
        (1, (ErrorCode.NONE, HERE, (HERE, ELSEWHERE), (HERE, ELSEWHERE))),
    ],
)
async def test_the_oldest_clients_miss_a_replica_whose_broker_is_not_there(
    client: WireClient, link: Link, version: int, described: tuple[Any, ...]
) -> None:
    state = led("r", isr=(HERE, ELSEWHERE))
    await link.update(metadata=MetadataUpdate(brokers=(REGISTRATION,), partitions=(state,)))
    answer = await client.call(ApiKey.METADATA, version, topics=[{"name": "r"}])
    (found,) = answer.topics[0].partitions
    assert described == (found.error_code, found.leader_id, found.replica_nodes, found.isr_nodes)


# After an election -------------------------------------------------------------------------------


async def list_offsets(client: WireClient, timestamp: int, version: int = 11) -> tuple[int, int]:
    answer = await client.call(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        topics=[
            {
                "name": "r",
                "partitions": [
                    {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
                ],
            }
        ],
    )
    (found,) = answer.topics[0].partitions
    return found.error_code, found.offset


async def test_a_new_leader_tells_no_end_before_it_knows_it(
    client: WireClient, link: Link, partition: Partition
) -> None:
    for number in range(4):
        await client.produce("r", one_batch(b"v", timestamp=1000 + number), acks=1)
    follow(partition, 2)
    await link.update(led("r", epoch=1, isr=(HERE, ELSEWHERE)))
    late = (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert await list_offsets(client, -1) == late
    assert await list_offsets(client, -1, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert await list_offsets(client, -2) == (0, 0)
    assert await list_offsets(client, 1001) == (0, 1)
    assert await list_offsets(client, 1002) == late
    assert await list_offsets(client, 5000) == late
    follow(partition, 4)
    assert await list_offsets(client, -1) == (0, 4)
    assert await list_offsets(client, 1002) == (0, 2)
    assert await list_offsets(client, 5000) == (0, -1)


# Deleting ----------------------------------------------------------------------------------------


async def start_deleting(client: WireClient, partition: Partition, within_ms: int = 5000) -> int:
    for _ in range(4):
        await client.produce("r", one_batch(b"v"), acks=1)
    follow(partition, 4)
    wanted = [{"name": "r", "partitions": [{"partition_index": 0, "offset": 3}]}]
    return client.send(ApiKey.DELETE_RECORDS, topics=wanted, timeout=within_ms)


async def outcome(client: WireClient, sent: int) -> tuple[Any, int]:
    answer = await client.receive(ApiKey.DELETE_RECORDS, sent)
    (result,) = answer.topics[0].partitions
    return result.error_code, result.low_watermark


async def test_a_deletion_is_answered_when_the_followers_have_deleted(
    broker: MemoryBroker, client: WireClient, partition: Partition
) -> None:
    sent = await start_deleting(client, partition)
    await broker.settle()
    assert partition.log.log_start_offset == 3
    follow(partition, 4, log_start=2)
    await broker.settle()
    assert partition.parked == 1
    follow(partition, 4, log_start=3)
    assert await outcome(client, sent) == (0, 3)
    assert partition.parked == 0


async def test_a_deletion_gives_up_when_its_time_is_over(
    broker: MemoryBroker, client: WireClient, partition: Partition
) -> None:
    sent = await start_deleting(client, partition, within_ms=500)
    await broker.settle()
    broker.clock.advance(0.5)
    assert await outcome(client, sent) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert partition.parked == 0


async def test_a_deletion_is_not_vouched_for_by_a_broker_that_leads_no_more(
    broker: MemoryBroker, client: WireClient, link: Link, partition: Partition
) -> None:
    sent = await start_deleting(client, partition)
    await broker.settle()
    await link.update(MOVED)
    assert await outcome(client, sent) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_deletion_does_not_wait_for_brokers_that_are_gone(
    broker: MemoryBroker, client: WireClient, link: Link, partition: Partition
) -> None:
    await link.update(metadata=MetadataUpdate(brokers=(REGISTRATION,)))
    for _ in range(4):
        await client.produce("r", one_batch(b"v"), acks=1)
    follow(partition, 4)
    wanted = [{"name": "r", "partitions": [{"partition_index": 0, "offset": 3}]}]
    sent = client.send(ApiKey.DELETE_RECORDS, topics=wanted, timeout=5000)
    assert await outcome(client, sent) == (0, 3)
