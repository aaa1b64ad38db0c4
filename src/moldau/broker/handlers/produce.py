"""Produce (key 0, versions 3-13): append batches.

Behaviour: batches pass through; they are checked, and their headers patched, in the connection's
own buffer. What decompresses to much is checked in a thread, and the connection waits for it. Each
partition succeeds or fails alone; one that is named twice fails. acks=0 is not answered (a failure
closes the connection, which is how such a producer learns to refresh its metadata), acks=1 is
answered after the append, acks=all once the high watermark has passed, without holding up the
requests behind it. Where ``flush.messages`` is reached the answer waits for the disk as well. From
version 10 on whoever asks the wrong broker is told who leads (KIP-951), from version 13 on topics
are named by id. Before the first batch of a transaction is stored its coordinator is asked, see
``broker/transactional_produce.py``; if that is on another broker the connection waits for it.
Known deviations: a batch of an idempotent producer that was stored before a restart, and whose
place nobody remembers, is DUPLICATE_SEQUENCE_NUMBER, which producers take for success; Kafka calls
it out of order, and the producer stores it again. A partition that is named twice is
INVALID_REQUEST; Kafka appends the last batch for it. Batches are refused that decompress to more
than ``log`` allows (``log/partition/budget.py``), and INVALID_RECORD are those whose offset deltas
are not 0, 1, 2 and so on, or whose compressed records have wrong sizes; Kafka stores the latter,
and the former if they are not compressed. What cannot be decompressed is INVALID_RECORD, in Kafka
UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.broker.broker import Broker
from moldau.broker.leader_hints import HINTED, current_leader, leader_endpoints
from moldau.broker.named_once import REPEATED, named_once
from moldau.broker.request import Request
from moldau.broker.traffic import EXPECTED_OF_PRODUCERS
from moldau.broker.transactional_produce import Refusals, join_transaction
from moldau.broker.turns import ITEMS_PER_TURN, others_turn
from moldau.controller.topic_names import INTERNAL_TOPICS
from moldau.errors import ErrorCode, KafkaError
from moldau.log import (
    AT_ONCE,
    CheckedBatch,
    DecompressionBudget,
    LongCheckError,
    RecordValidationError,
)
from moldau.machine import Part
from moldau.model import Node, TopicPartition
from moldau.net import Pending
from moldau.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL_FLAG,
)
from moldau.records.compression import Compression
from moldau.replication import ParkedProduce, Partition
from moldau.wire.api import ApiKey
from moldau.wire.produce import (
    PartitionProduceResult,
    ProduceRequest,
    ProduceTopic,
    decode_produce_request,
    encode_produce_response,
)

log = logging.getLogger(__name__)

FIRST_VERSION_WITH_ZSTD: Final = 7
ACKS_NONE: Final = 0
ACKS_ALL: Final = -1
MOST_WAITING: Final = 4096
"""Partitions that the appends of one connection wait for, about, before the next append has to wait
itself: each takes some 350 bytes, for as long as the client has said.
"""
_CHEAP: Final = AT_ONCE - 128 * 1024
"""With less left of its budget a request has taken so long that it is the others' turn."""

Results: TypeAlias = list[tuple[str | None, UUID | None, list[PartitionProduceResult]]]

decode = decode_produce_request


class HintedResults:
    """An answer that names other leaders: with where they are."""

    __slots__ = ("endpoints", "results")

    def __init__(self, results: Results, endpoints: list[Node]) -> None:
        self.results = results
        self.endpoints = endpoints


Answer: TypeAlias = Results | HintedResults


class LongCheck(NamedTuple):
    """A batch that waits to be looked at, and where its result belongs."""

    results: list[PartitionProduceResult]
    place: int
    partition: Partition
    records: bytearray


class Waits:
    """What an answer has to wait for."""

    __slots__ = ("budget", "checks", "disks", "is_hinted", "refusals", "replicas")

    def __init__(self) -> None:
        self.replicas: list[tuple[Partition, int]] = []
        """The high watermark of these partitions must reach the offset (acks=all)."""
        self.disks: list[Partition] = []
        """These logs must be flushed first (``flush.messages``)."""
        self.checks: list[LongCheck] = []
        """These batches are appended later: the event loop has no time to look at them."""
        self.budget = DecompressionBudget()
        self.refusals: Refusals | None = None
        """Partitions that take no part in the transaction of the request."""
        self.is_hinted = False
        """Whether some partition has another leader, and the answer says which."""

    def refuse(self, topic_partition: TopicPartition) -> None:
        """Raises why the partition takes no part in the transaction, if it does not."""
        refusal = None if self.refusals is None else self.refusals.get(topic_partition)
        if refusal is not None:
            raise refusal

    def copied_bytes(self) -> int:
        """Returns what the batches take that are appended later."""
        return sum([len(check.records) for check in self.checks])


def handle(request: Request[ProduceRequest]) -> Answer | Pending | None:
    body = request.body
    topics = body.topics
    if len(topics) > 1 or (topics and len(topics[0].partitions) > 1):
        topics = named_once(topics)
    waits = Waits()
    if body.transactional_id is not None:
        refusals = join_transaction(request.broker, request.version, body.transactional_id, topics)
        if not isinstance(refusals, dict):
            return _join_later(request, topics, waits, refusals)
        waits.refusals = refusals
    results: Results = []
    for topic in topics:
        partitions = _append_topic(request.broker, request.version, topic, body, waits)
        results.append((topic.name, topic.topic_id, partitions))
    if waits.budget.at_once < _CHEAP:
        request.connection.end_turn()
    if waits.checks:
        return _check_later(request, results, waits)
    return _conclude(request, results, waits)


async def handle_large(request: Request[ProduceRequest]) -> Answer | Pending | None:
    """As ``handle``, with everybody else's turn after some partitions."""
    body, memory = request.body, request.broker.request_memory
    waits = Waits()
    results: Results = []
    topics = await request.broker.run_in_thread(named_once, body.topics)
    if body.transactional_id is not None:
        refusals = join_transaction(request.broker, request.version, body.transactional_id, topics)
        waits.refusals = refusals if isinstance(refusals, dict) else await refusals
    for topic in topics:
        partitions: list[PartitionProduceResult] = []
        for start in range(0, len(topic.partitions), ITEMS_PER_TURN):
            await others_turn()
            waits.budget.next_turn()
            piece = ProduceTopic(
                topic.name, topic.topic_id, topic.partitions[start : start + ITEMS_PER_TURN]
            )
            appended = _append_topic(request.broker, request.version, piece, body, waits)
            copies = waits.copied_bytes()
            memory.count(copies)
            try:
                await _append_checked(request, waits)
            finally:
                memory.count(-copies)
            partitions += appended
        results.append((topic.name, topic.topic_id, partitions))
    return _conclude(request, results, waits)


def _conclude(
    request: Request[ProduceRequest],
    results: Results,
    waits: Waits,
    pending: Pending | None = None,
) -> Answer | Pending | None:
    """Returns the answer, or its place: ``pending``, if the connection has that already."""
    if request.body.acks == ACKS_NONE:
        if any(result.error_code for _, _, partitions in results for result in partitions):
            log.info("closing %s: an append with acks=0 failed", request.connection.peer)
            request.connection.close()
        return None
    if waits.replicas or waits.disks:
        return _park(request, results, waits, pending or Pending())
    return _hinted(request, results) if waits.is_hinted else results


def _hinted(request: Request[ProduceRequest], results: Results) -> HintedResults:
    leaders = {
        result.current_leader[0]
        for _, _, partitions in results
        for result in partitions
        if result.current_leader is not None
    }
    endpoints = leader_endpoints(request.broker, request.connection.listener, leaders)
    return HintedResults(results, endpoints)


def error_answer(request: Request[ProduceRequest], error: KafkaError) -> Results | None:
    body = request.body
    if body.acks == ACKS_NONE:
        return None
    return [
        (topic.name, topic.topic_id, [_failure(index, error) for index, _ in topic.partitions])
        for topic in body.topics
    ]


def encode(version: int, correlation_id: int, answer: Answer, throttle_ms: int) -> Sequence[Part]:
    if isinstance(answer, HintedResults):
        results, endpoints = answer.results, answer.endpoints
        return (encode_produce_response(version, correlation_id, results, throttle_ms, endpoints),)
    return (encode_produce_response(version, correlation_id, answer, throttle_ms),)


def _append_topic(
    broker: Broker,
    version: int,
    topic: ProduceTopic,
    body: ProduceRequest,
    waits: Waits,
) -> list[PartitionProduceResult]:
    name = topic.name
    if name is None:
        known = broker.metadata.topics_by_id.get(topic.topic_id) if topic.topic_id else None
        if known is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return [_failure(index, KafkaError(code)) for index, _ in topic.partitions]
        name = known.name
    partitions = broker.replicas.topics.get(name)
    internal = name in INTERNAL_TOPICS
    acks = body.acks
    now_ms = broker.clock.now_ms()
    broker.traffic.produced_partitions += len(topic.partitions)
    results: list[PartitionProduceResult] = []
    for index, records in topic.partitions:
        try:
            partition = partitions.get(index) if partitions is not None else None
            if partition is None:
                raise KafkaError(broker.missing_partition_error(name, index))
            if records is None:
                raise KafkaError(ErrorCode.INVALID_RECORD, "the request carries no records")
            if records is REPEATED:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
            if not -1 <= acks <= 1:
                raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
            if internal:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic")
            _check_attributes(version, body, records)
            if waits.refusals:
                waits.refuse(TopicPartition(name, index))
            results.append(_append(broker, partition, index, records, acks, now_ms, waits))
        except LongCheckError:
            assert partition is not None
            assert records is not None
            waits.checks.append(LongCheck(results, len(results), partition, bytearray(records)))
            results.append(PartitionProduceResult(index))
        except KafkaError as error:
            results.append(_refuse(broker, name, index, error, waits))
    return results


def _append(
    broker: Broker,
    partition: Partition,
    index: int,
    records: memoryview | CheckedBatch,
    acks: int,
    now_ms: int,
    waits: Waits,
) -> PartitionProduceResult:
    info = partition.append(records, acks, now_ms, budget=waits.budget)
    traffic = broker.traffic
    traffic.bytes_in += info.size
    traffic.messages_in += info.last_offset - info.first_offset + 1
    if acks == ACKS_ALL and partition.high_watermark <= info.last_offset:
        waits.replicas.append((partition, info.last_offset + 1))
    if info.flush_due:
        waits.disks.append(partition)
    return PartitionProduceResult(
        index,
        0,
        info.first_offset,
        info.log_append_time_ms,
        info.log_start_offset,
    )


def _refuse(
    broker: Broker, topic: str, index: int, error: KafkaError, waits: Waits
) -> PartitionProduceResult:
    if error.code not in EXPECTED_OF_PRODUCERS:
        broker.traffic.failed_produces += 1
    result = _failure(index, error)
    if error.code in HINTED:
        result.current_leader = current_leader(broker, topic, index)
        waits.is_hinted = True
    return result


def _join_later(
    request: Request[ProduceRequest],
    topics: list[ProduceTopic],
    waits: Waits,
    refusals: Awaitable[Refusals],
) -> Pending:
    """Append when the coordinator of the transaction has answered; the connection waits so long."""
    pending = Pending()
    body, memory = request.body, request.broker.request_memory
    copies = [
        ProduceTopic(
            topic.name,
            topic.topic_id,
            [(index, _copied(records)) for index, records in topic.partitions],
        )
        for topic in topics
    ]
    size = sum([len(records or b"") for topic in copies for _, records in topic.partitions])
    memory.count(size)
    request.body = ProduceRequest(body.transactional_id, body.acks, body.timeout_ms, copies)

    async def append() -> Answer | Pending | None:
        try:
            waits.refusals = await refusals
            results: Results = []
            for topic in copies:
                partitions = _append_topic(
                    request.broker, request.version, topic, request.body, waits
                )
                results.append((topic.name, topic.topic_id, partitions))
            await _append_checked(request, waits)
        finally:
            memory.count(-size)
        return _conclude(request, results, waits, pending)

    request.broker.tasks.spawn(_complete_later(request, pending, append()))
    return pending


def _copied(records: memoryview | None) -> memoryview | None:
    """Records that outlive the buffer they were read into."""
    return records if records is None or records is REPEATED else memoryview(bytearray(records))


def _check_later(request: Request[ProduceRequest], results: Results, waits: Waits) -> Pending:
    """Answer when the batches that take long are looked at, too; the connection waits so long."""
    pending = Pending()
    body = request.body
    memory = request.broker.request_memory
    copies = waits.copied_bytes()
    memory.count(copies)
    # The records in it are views of memory that others read into from now on.
    request.body = ProduceRequest(
        body.transactional_id,
        body.acks,
        body.timeout_ms,
        [
            ProduceTopic(
                topic.name, topic.topic_id, [(index, None) for index, _ in topic.partitions]
            )
            for topic in body.topics
        ],
    )

    async def append() -> Answer | Pending | None:
        try:
            await _append_checked(request, waits)
        finally:
            memory.count(-copies)
        return _conclude(request, results, waits, pending)

    request.broker.tasks.spawn(_complete_later(request, pending, append()))
    return pending


async def _complete_later(
    request: Request[ProduceRequest],
    pending: Pending,
    appending: Awaitable[Answer | Pending | None],
) -> None:
    parts: Sequence[Part] | None
    try:
        response = await appending
        if isinstance(response, Pending):
            return
        if response is None:
            request.unanswered()
            parts = None
        else:
            parts = request.encode(response)
    except Exception as error:
        parts = request.fail(error)
    pending.complete(parts)


async def _append_checked(request: Request[ProduceRequest], waits: Waits) -> None:
    """Append what waits to be looked at; each result goes to its place."""
    broker, acks = request.broker, request.body.acks
    for check in waits.checks:
        index = check.results[check.place].index
        try:
            checked = await broker.long_checks.run(
                check.partition.log.check, memoryview(check.records), broker.clock.now_ms()
            )
            now_ms = broker.clock.now_ms()
            result = _append(broker, check.partition, index, checked, acks, now_ms, waits)
        except KafkaError as error:
            topic = check.partition.topic_partition.topic
            result = _refuse(broker, topic, index, error, waits)
        check.results[check.place] = result
    waits.checks.clear()
    waits.budget.next_turn()


def _check_attributes(version: int, body: ProduceRequest, records: memoryview) -> None:
    """Refuse what depends on the request and not only on the batch."""
    if len(records) <= ATTRIBUTES_OFFSET + 1 or records[MAGIC_OFFSET] != MAGIC:
        return  # not a batch of ours at all: the log says what it is
    attributes = records[ATTRIBUTES_OFFSET + 1]
    if attributes & TRANSACTIONAL_FLAG and body.transactional_id is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if version < FIRST_VERSION_WITH_ZSTD and attributes & COMPRESSION_MASK == Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce version {version} is too old for zstd (KIP-110)",
        )


def _failure(index: int, error: KafkaError) -> PartitionProduceResult:
    records = error.record_errors if isinstance(error, RecordValidationError) else ()
    return PartitionProduceResult(index, error.code, -1, -1, -1, records, error.message)


def _let_follow(request: Request[ProduceRequest], waits: Waits, pending: Pending) -> None:
    """Appends need not wait for each other's answers, unless that takes too much memory."""
    if request.connection.in_flight * len(waits.replicas) <= MOST_WAITING:
        pending.let_follow(ApiKey.PRODUCE)


def _park(
    request: Request[ProduceRequest], results: Results, waits: Waits, pending: Pending
) -> Pending:
    """Answer later; the appends are settled, only disks and replicas are awaited."""
    broker, timeout_ms = request.broker, request.body.timeout_ms
    del request.body  # the records in it are views of memory that others read into from now on
    _let_follow(request, waits, pending)
    late: dict[TopicPartition, ErrorCode] = {}

    def answer(codes: list[ErrorCode], awaited: Sequence[tuple[Partition, int]] = ()) -> None:
        for (partition, _), code in zip(awaited, codes, strict=True):
            if code:
                late[partition.topic_partition] = code
        settled = [
            (name, topic_id, [_settle(broker, name, topic_id, r, late) for r in partitions])
            for name, topic_id, partitions in results
        ]
        is_hinted = waits.is_hinted or any(code in HINTED for code in late.values())
        try:
            parts: Sequence[Part] | None = request.encode(
                _hinted(request, settled) if is_hinted else settled
            )
        except Exception as error:
            parts = request.fail(error)
        pending.complete(parts)

    def await_replicas() -> None:
        if pending.abandoned:
            return
        # What its disk has refused is answered: the high watermark may not reach it for long.
        awaited = [wait for wait in waits.replicas if wait[0].topic_partition not in late]
        if awaited:
            parked = ParkedProduce(
                broker.clock,
                awaited,
                timeout_ms=timeout_ms,
                answer=partial(answer, awaited=awaited),
            )
            pending.on_abandoned = parked.cancel
        else:
            answer([])

    async def await_disks() -> None:
        for partition in waits.disks:
            try:
                await broker.logs.flush(partition.log)
            except KafkaError as error:
                late[partition.topic_partition] = error.code
        await_replicas()

    if waits.disks:
        broker.tasks.spawn(await_disks())
    else:
        await_replicas()
    return pending


def _settle(
    broker: Broker,
    name: str | None,
    topic_id: UUID | None,
    result: PartitionProduceResult,
    late: dict[TopicPartition, ErrorCode],
) -> PartitionProduceResult:
    if name is None and topic_id is not None:
        topic = broker.metadata.topics_by_id.get(topic_id)
        name = topic.name if topic is not None else None
    name = name or ""
    code = late.get(TopicPartition(name, result.index))
    if code is None:
        return result
    failure = _failure(result.index, KafkaError(code))
    if code in HINTED:
        failure.current_leader = current_leader(broker, name, result.index)
    return failure
