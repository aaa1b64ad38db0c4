"""Who asks as a replica must be the broker that holds it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, flatten
from tests.unit.broker.harness import HERE

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey

FOLLOWER = 2


async def fetch(client: WireClient, replica_id: int) -> Any:
    answer = await client.fetch_all({"t": {0: 0}}, max_wait_ms=0, replica_id=replica_id)
    ((_, partition),) = flatten(answer)
    return partition.error_code


async def list_offsets(client: WireClient, replica_id: int) -> Any:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": "t", "partitions": [asked]}]
    answer: Any = await client.call(ApiKey.LIST_OFFSETS, replica_id=replica_id, topics=topics)
    return answer.topics[0].partitions[0].error_code


async def end_of_epoch(client: WireClient, replica_id: int) -> Any:
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": "t", "partitions": [asked]}]
    answer: Any = await client.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=replica_id, topics=topics
    )
    return answer.topics[0].partitions[0].error_code


@pytest.mark.parametrize("ask", [fetch, list_offsets, end_of_epoch])
@pytest.mark.parametrize("peer", [-1, HERE])
async def test_a_replica_id_of_another_is_refused(
    broker: MemoryBroker, client: WireClient, ask: Any, peer: int
) -> None:
    await client.create_topic("t")
    other = await broker.connect(broker_id=peer)
    assert await ask(other, FOLLOWER) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await ask(other, -1) == ErrorCode.NONE


@pytest.mark.parametrize("ask", [list_offsets, end_of_epoch])
async def test_a_broker_asks_with_its_own(
    broker: MemoryBroker, client: WireClient, ask: Any
) -> None:
    await client.create_topic("t")
    follower = await broker.connect(broker_id=FOLLOWER)
    assert await ask(follower, FOLLOWER) == ErrorCode.NONE
