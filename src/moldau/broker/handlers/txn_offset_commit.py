"""TxnOffsetCommit (key 28, versions 0-5): offsets that hold when a transaction commits.

Behaviour: as OffsetCommit, but nobody sees the offsets before the transaction commits, and who asks
for stable ones meanwhile is told UNSTABLE_OFFSET_COMMIT. A producer that says for which member it
acts is fenced with that member (KIP-447). The transaction has to know of the group's partition: to
version 4 by AddOffsetsToTxn, from version 5 on the group adds it itself (KIP-890).
Known deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from moldau.broker.add_partitions_to_txn import add_partitions_to_txn
from moldau.broker.broker import Broker
from moldau.broker.group_coordinator import OFFSETS_TOPIC
from moldau.broker.offset_commits import commit_existing, commit_failed
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import ErrorCode, KafkaError
from moldau.log import Verification
from moldau.model import TopicPartition
from moldau.outcome import Transaction
from moldau.transactions.rules import Producer
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)

FIRST_WITH_LOADING = 2
"""Before it producers do not know COORDINATOR_LOAD_IN_PROGRESS."""
FIRST_WITH_ABORTABLE = 4
"""Before it producers do not know TRANSACTION_ABORTABLE."""
FIRST_THAT_ADDS = 5


async def handle(request: Request[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
    body, broker = request.body, request.broker
    if not body.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    commits = _commits(body)
    await _join_transaction(request)
    transaction = Transaction(body.producer_id, body.producer_epoch)

    def commit(wanted: OffsetCommitRequest) -> Answer:
        return broker.groups.submit(
            wanted.group_id,
            lambda shard, token, now_ms: shard.txn_offset_commit(
                wanted, transaction, token, now_ms, request.version
            ),
            lambda error: commit_failed(wanted.topics, error),
        )

    answer = gathered(
        [commit_existing(broker, commits, commit)],
        lambda parts: _response(parts[0].topics, request),
    )
    response: TxnOffsetCommitResponse = (
        answer if isinstance(answer, TxnOffsetCommitResponse) else await answer
    )
    return response


def error_answer(
    request: Request[TxnOffsetCommitRequest], error: KafkaError
) -> TxnOffsetCommitResponse:
    return _response(commit_failed(_commits(request.body).topics, error).topics, request)


async def _join_transaction(request: Request[TxnOffsetCommitRequest]) -> None:
    """Make sure that the transaction knows of the group's offsets. Raises KafkaError."""
    body, broker = request.body, request.broker
    adds = request.version >= FIRST_THAT_ADDS
    verification = _begin_verification(broker, body, adds)
    if verification is None:
        return
    if adds or broker.config.transaction_partition_verification_enable:
        partition = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(body.group_id))
        errors = add_partitions_to_txn(
            broker,
            body.transactional_id,
            Producer(body.producer_id, body.producer_epoch),
            frozenset({partition}),
            verify_only=not adds,
        )
        if not isinstance(errors, dict):
            errors = await errors
        code = errors[partition]
        if code:
            raise KafkaError(_commit_error(code, request.version))
    host = broker.groups.host_of(body.group_id)
    if (
        host is not None
        and not host.partition.log.producers.is_awaited(body.producer_id, verification)
        and _begin_verification(broker, body, adds) is not None
    ):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)  # it has ended meanwhile


def _begin_verification(
    broker: Broker, body: TxnOffsetCommitRequest, adds: bool
) -> Verification | None:
    host = broker.groups.host_of(body.group_id)
    if host is None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    if host.refusal:
        raise KafkaError(host.refusal)
    return host.partition.log.producers.begin_verification(
        body.producer_id, body.producer_epoch, 0, starts_epoch=adds
    )


def _commit_error(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # which producers ask again for
    return code


def _commits(body: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=body.group_id,
        generation_id_or_member_epoch=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic.name,
                partitions=tuple(
                    make(
                        OffsetCommitRequestPartition,
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        committed_metadata=partition.committed_metadata,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in body.topics
        ),
    )


def _response(
    topics: Iterable[OffsetCommitResponseTopic], request: Request[TxnOffsetCommitRequest]
) -> TxnOffsetCommitResponse:
    def known(code: int) -> int:
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.version < FIRST_WITH_LOADING:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return code

    return make(
        TxnOffsetCommitResponse,
        topics=tuple(
            make(
                TxnOffsetCommitResponseTopic,
                name=topic.name,
                partitions=tuple(
                    make(
                        TxnOffsetCommitResponsePartition,
                        partition_index=partition.partition_index,
                        error_code=known(partition.error_code),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        ),
    )
