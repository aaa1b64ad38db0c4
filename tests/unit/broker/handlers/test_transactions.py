"""Transactions by wire, on a broker in memory: both protocols, offsets, and restarts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, one_batch, values_of

from moldau.broker import transaction_markers
from moldau.broker.transaction_markers import write_markers
from moldau.broker.transactional_produce import produce_error
from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

ID = "t"
GROUP = "g"
OLD, NEW = 11, 12
"""Versions of Produce: the producer announces partitions, or the leader does."""
NONE = ErrorCode.NONE

pytestmark = pytest.mark.parametrize(
    "broker", [{"transaction.state.log.num.partitions": "2"}], indirect=True
)


class TransactionalClient:
    """A producer that does by hand what others do by themselves."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.producer: dict[str, Any] = {
            "transactional_id": ID,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        self.sequence = 0

    async def init(self) -> ErrorCode:
        await self.client.call(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=[ID])
        answer = await self.client.call(
            ApiKey.INIT_PRODUCER_ID, transactional_id=ID, transaction_timeout=60_000
        )
        self._goes_on_as(answer)
        return error_from(answer.error_code)

    def _goes_on_as(self, answer: Any) -> None:
        if not answer.error_code:
            self.producer["producer_id"] = answer.producer_id
            self.producer["producer_epoch"] = answer.producer_epoch
            self.sequence = 0

    async def add(self, topic: str, partition: int = 0) -> ErrorCode:
        transaction = {**self.producer, "topics": [{"name": topic, "partitions": [partition]}]}
        answer = await self.client.call(
            ApiKey.ADD_PARTITIONS_TO_TXN, 3, transactions=[{**transaction, "verify_only": False}]
        )
        (result,) = answer.results_by_transaction[0].topic_results
        return error_from(result.results_by_partition[0].partition_error_code)

    async def send(self, topic: str, value: bytes, version: int) -> ErrorCode:
        batch = one_batch(
            value,
            producer_id=self.producer["producer_id"],
            producer_epoch=self.producer["producer_epoch"],
            base_sequence=self.sequence,
            transactional=True,
        )
        result = await self.client.produce(topic, batch, transactional_id=ID, version=version)
        self.sequence += result.error_code == 0
        return error_from(result.error_code)

    async def end(self, version: int, *, commit: bool = True) -> ErrorCode:
        answer = await self.client.call(ApiKey.END_TXN, version, **self.producer, committed=commit)
        if version >= 5:
            self._goes_on_as(answer)
        return error_from(answer.error_code)

    async def commit_offset(self, topic: str, offset: int, version: int) -> ErrorCode:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        answer = await self.client.call(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            **self.producer,
            group_id=GROUP,
            topics=[{"name": topic, "partitions": [partition]}],
        )
        return error_from(answer.topics[0].partitions[0].error_code)


@pytest.fixture
async def producer(client: WireClient) -> TransactionalClient:
    await client.create_topic("a")
    made = TransactionalClient(client)
    assert await made.init() is NONE
    return made


async def committed(client: WireClient, topic: str = "a") -> list[bytes | None]:
    fetched = await client.fetch(topic, isolation_level=1, max_wait_ms=0)
    aborted = {producer_id for producer_id, _ in fetched.aborted or ()}
    return [] if aborted else [value for value in values_of(fetched) if len(value or b"") < 5]


async def offset_of(client: WireClient, topic: str, *, stable: bool) -> int | ErrorCode:
    answer = await client.call(
        ApiKey.OFFSET_FETCH,
        9,
        groups=[{"group_id": GROUP, "topics": [{"name": topic, "partition_indexes": [0]}]}],
        require_stable=stable,
    )
    partition = answer.groups[0].topics[0].partitions[0]
    return error_from(partition.error_code) or int(partition.committed_offset)


async def test_the_older_protocol(
    broker: MemoryBroker, client: WireClient, producer: TransactionalClient
) -> None:
    assert await producer.send("a", b"0", OLD) is ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.send("a", b"0", 10) is ErrorCode.INVALID_TXN_STATE
    assert await producer.add("a") is NONE
    assert await producer.send("a", b"1", OLD) is NONE
    assert await producer.send("a", b"2", OLD) is NONE
    assert await committed(client) == []
    assert await producer.end(3) is NONE
    await broker.settle()
    assert await committed(client) == [b"1", b"2"]
    assert await producer.end(3) is NONE, "asked again"
    assert await producer.send("a", b"late", OLD) is ErrorCode.TRANSACTION_ABORTABLE


async def test_the_leader_adds_the_partition_and_every_end_raises_the_epoch(
    broker: MemoryBroker, client: WireClient, producer: TransactionalClient
) -> None:
    for epoch, value in enumerate([b"1", b"2"]):
        assert producer.producer["producer_epoch"] == epoch
        assert await producer.send("a", value, NEW) is NONE
        assert await producer.end(5) is NONE
        await broker.settle()
    assert await committed(client) == [b"1", b"2"]
    producer.producer["producer_epoch"] -= 1
    assert await producer.send("a", b"late", NEW) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_offsets_hold_when_the_transaction_commits(
    broker: MemoryBroker, client: WireClient, producer: TransactionalClient
) -> None:
    await client.call(ApiKey.FIND_COORDINATOR, coordinator_keys=[GROUP])
    assert await producer.commit_offset("a", 7, 3) is ErrorCode.INVALID_TXN_STATE
    assert await producer.commit_offset("a", 7, 5) is NONE
    assert await offset_of(client, "a", stable=False) == -1
    assert await offset_of(client, "a", stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await producer.end(5) is NONE
    await broker.settle()
    assert await offset_of(client, "a", stable=True) == 7
    added = await client.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, **producer.producer, group_id=GROUP)
    assert added.error_code == 0
    assert await producer.commit_offset("a", 9, 3) is NONE
    assert await producer.end(5, commit=False) is NONE
    await broker.settle()
    assert await offset_of(client, "a", stable=True) == 7


async def test_a_successor_fences_and_gets_its_turn_when_the_abort_is_done(
    broker: MemoryBroker, client: WireClient, producer: TransactionalClient
) -> None:
    await producer.send("a", b"1", NEW)
    heir = TransactionalClient(client)
    assert await heir.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    await broker.settle()
    assert await heir.init() is NONE
    assert heir.producer["producer_epoch"] == producer.producer["producer_epoch"] + 2
    assert await producer.end(5) is ErrorCode.PRODUCER_FENCED
    assert await producer.end(1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.send("a", b"2", NEW) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_markers_that_fail_for_a_reason_that_nobody_foresaw_are_written_later(
    broker: MemoryBroker,
    client: WireClient,
    producer: TransactionalClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = 2

    async def failing(*args: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise RuntimeError("nobody foresaw this")
        return await write_markers(*args)

    monkeypatch.setattr(transaction_markers, "write_markers", failing)
    assert await producer.send("a", b"1", NEW) is NONE
    assert await producer.end(5) is NONE
    for _ in range(3):
        await broker.settle()
        broker.clock.advance(1.0)
    await broker.settle()
    assert await committed(client) == [b"1"]
    assert "cannot write the markers" in caplog.text
    assert not failures


async def test_what_is_listed_and_described(
    client: WireClient, producer: TransactionalClient
) -> None:
    await producer.send("a", b"1", NEW)

    async def listed(**filters: Any) -> list[str]:
        answer = await client.call(ApiKey.LIST_TRANSACTIONS, **filters)
        return [each.transactional_id for each in answer.transaction_states]

    assert await listed() == [ID]
    assert await listed(state_filters=["Ongoing"], transactional_id_pattern="t|u") == [ID]
    assert await listed(transactional_id_pattern="u") == []
    answer = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[ID, "", "u"])
    codes = [each.error_code for each in answer.transaction_states]
    assert codes[:2] == [0, ErrorCode.INVALID_REQUEST]
    assert codes[2] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    described = answer.transaction_states[0]
    assert (described.transaction_state, described.producer_epoch) == ("Ongoing", 0)
    assert [(each.topic, each.partitions) for each in described.topics] == [("a", (0,))]


async def test_an_unknown_partition_keeps_the_others_out(
    client: WireClient, producer: TransactionalClient
) -> None:
    assert await producer.add("absent") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = await client.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        transactions=[
            {
                **producer.producer,
                "topics": [{"name": "a", "partitions": [0]}, {"name": "x", "partitions": [1]}],
                "verify_only": False,
            }
        ],
    )
    first, second = answer.results_by_transaction[0].topic_results
    assert first.results_by_partition[0].partition_error_code == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert second.results_by_partition[0].partition_error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    told = produce_error(ErrorCode.OPERATION_NOT_ATTEMPTED, NEW).code
    assert told is ErrorCode.NOT_ENOUGH_REPLICAS, "what makes a producer send it again"
