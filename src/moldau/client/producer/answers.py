"""What a Produce answer says about the batches of its request."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID
from moldau.request_errors import error_of
from moldau.wire.produce import PartitionProduceResult, ProduceResponse

METADATA_IS_OLD: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Errors after which the cluster has to be looked at anew."""

Results = dict[tuple[str, int], PartitionProduceResult]
"""Results by topic and partition."""


def results_by_partition(response: ProduceResponse, names: dict[UUID, str]) -> Results:
    """The results by topic and partition; ``names`` are those of the request's topic ids."""
    results = {}
    for name, topic_id, partitions in response.topics:
        topic = name if name is not None else names.get(topic_id or NO_TOPIC_ID, "")
        for result in partitions:
            results[topic, result.index] = result
    return results


def error_in(result: PartitionProduceResult | None) -> KafkaError | None:
    """Why a batch was not stored, or None."""
    if result is None:
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The broker's answer does not speak of the batch"
        )
    if result.error_code == 0:
        return None
    message = result.error_message
    if result.record_errors:
        message = "; ".join(filter(None, [message, result.record_errors[0][1]]))
    return error_of(result.error_code, message)
