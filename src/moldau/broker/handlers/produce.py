"""Produce (key 0, versions 3-13): append batches.

Behaviour: batches pass through; only their headers are read and patched, in the connection's own
buffer. Each partition succeeds or fails alone. acks=0 is not answered (a failure closes the
connection, which is how such a producer learns to refresh its metadata), acks=1 is answered after
the append, acks=all once the high watermark has passed, without holding up the requests behind it.
Where ``flush.messages`` is reached the answer waits for the disk as well. From version 13 on topics
are named by id.
Known deviations: transactions are not served yet; a transactional batch is refused with
INVALID_TXN_STATE (TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the request has no transactional id).
A batch of an idempotent producer that was stored before a restart, and whose place nobody
remembers, is DUPLICATE_SEQUENCE_NUMBER, which producers take for success; Kafka calls it out of
order, and the producer stores it again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.broker.broker import Broker
from moldau.broker.large_requests import ITEMS_PER_PIECE, others_turn
from moldau.broker.request import Request
from moldau.broker.traffic import EXPECTED_OF_PRODUCERS
from moldau.controller.topic_names import INTERNAL_TOPICS
from moldau.errors import ErrorCode, KafkaError
from moldau.log import RecordValidationError
from moldau.machine import Part
from moldau.model import TopicPartition
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

Results: TypeAlias = list[tuple[str | None, UUID | None, list[PartitionProduceResult]]]

decode = decode_produce_request


class Waits(NamedTuple):
    """What an answer has to wait for."""

    replicas: list[tuple[Partition, int]]
    """The high watermark of these partitions must reach the offset (acks=all)."""
    disks: list[Partition]
    """These logs must be flushed first (``flush.messages``)."""


def handle(request: Request[ProduceRequest]) -> Results | Pending | None:
    body = request.body
    waits = Waits([], [])
    results: Results = []
    for topic in body.topics:
        partitions = _append_topic(request.broker, request.version, topic, body, waits)
        results.append((topic.name, topic.topic_id, partitions))
    return _conclude(request, results, waits)


async def handle_large(request: Request[ProduceRequest]) -> Results | Pending | None:
    """As ``handle``, with everybody else's turn after some partitions."""
    body = request.body
    waits = Waits([], [])
    results: Results = []
    for topic in body.topics:
        partitions: list[PartitionProduceResult] = []
        for start in range(0, len(topic.partitions), ITEMS_PER_PIECE):
            await others_turn()
            piece = ProduceTopic(
                topic.name, topic.topic_id, topic.partitions[start : start + ITEMS_PER_PIECE]
            )
            partitions += _append_topic(request.broker, request.version, piece, body, waits)
        results.append((topic.name, topic.topic_id, partitions))
    return _conclude(request, results, waits)


def _conclude(
    request: Request[ProduceRequest], results: Results, waits: Waits
) -> Results | Pending | None:
    if request.body.acks == ACKS_NONE:
        if any(result.error_code for _, _, partitions in results for result in partitions):
            log.info("closing %s: an append with acks=0 failed", request.connection.peer)
            request.connection.close()
        return None
    if waits.replicas or waits.disks:
        return _park(request, results, waits)
    return results


def error_answer(request: Request[ProduceRequest], error: KafkaError) -> Results | None:
    body = request.body
    if body.acks == ACKS_NONE:
        return None
    return [
        (topic.name, topic.topic_id, [_failure(index, error) for index, _ in topic.partitions])
        for topic in body.topics
    ]


def encode(version: int, correlation_id: int, results: Results, throttle_ms: int) -> Sequence[Part]:
    return (encode_produce_response(version, correlation_id, results, throttle_ms),)


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
    traffic = broker.traffic
    traffic.produced_partitions += len(topic.partitions)
    results = []
    for index, records in topic.partitions:
        try:
            partition = partitions.get(index) if partitions is not None else None
            if partition is None:
                raise KafkaError(broker.missing_partition_error(name, index))
            if records is None:
                raise KafkaError(ErrorCode.INVALID_RECORD, "the request carries no records")
            if not -1 <= acks <= 1:
                raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
            if internal:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic")
            _check_attributes(version, body, records)
            info = partition.append(records, acks, now_ms)
        except KafkaError as error:
            results.append(_failure(index, error))
            if error.code not in EXPECTED_OF_PRODUCERS:
                traffic.failed_produces += 1
            continue
        traffic.bytes_in += info.size
        traffic.messages_in += info.last_offset - info.first_offset + 1
        results.append(
            PartitionProduceResult(
                index,
                0,
                info.first_offset,
                info.log_append_time_ms,
                info.log_start_offset,
            )
        )
        if acks == ACKS_ALL and partition.high_watermark <= info.last_offset:
            waits.replicas.append((partition, info.last_offset + 1))
        if info.flush_due:
            waits.disks.append(partition)
    return results


def _check_attributes(version: int, body: ProduceRequest, records: memoryview) -> None:
    """Refuse what depends on the request and not only on the batch."""
    if len(records) <= ATTRIBUTES_OFFSET + 1 or records[MAGIC_OFFSET] != MAGIC:
        return  # not a batch of ours at all: the log says what it is
    attributes = records[ATTRIBUTES_OFFSET + 1]
    if attributes & TRANSACTIONAL_FLAG:
        if body.transactional_id is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
    if version < FIRST_VERSION_WITH_ZSTD and attributes & COMPRESSION_MASK == Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce version {version} is too old for zstd (KIP-110)",
        )


def _failure(index: int, error: KafkaError) -> PartitionProduceResult:
    records = error.record_errors if isinstance(error, RecordValidationError) else ()
    return PartitionProduceResult(index, error.code, -1, -1, -1, records, error.message)


def _park(request: Request[ProduceRequest], results: Results, waits: Waits) -> Pending:
    """Answer later; the appends are settled, only disks and replicas are awaited."""
    broker, timeout_ms = request.broker, request.body.timeout_ms
    del request.body  # the records in it are views of memory that others read into from now on
    pending = Pending(follower=ApiKey.PRODUCE)
    late: dict[TopicPartition, ErrorCode] = {}

    def answer(codes: list[ErrorCode], awaited: Sequence[tuple[Partition, int]] = ()) -> None:
        for (partition, _), code in zip(awaited, codes, strict=True):
            if code:
                late[partition.topic_partition] = code
        settled = [
            (name, topic_id, [_settle(broker, name, topic_id, r, late) for r in partitions])
            for name, topic_id, partitions in results
        ]
        try:
            parts: Sequence[Part] | None = request.encode(settled)
        except Exception as error:
            parts = request.fail(error)
        pending.complete(parts)

    def await_replicas() -> None:
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
    code = late.get(TopicPartition(name or "", result.index))
    return result if code is None else _failure(result.index, KafkaError(code))
