"""Requests to partition leaders: delete records, describe producers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kio.schema.delete_records.v2.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import Outcome, ProducerState
from moldau.client.routing import by_topic
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.request_errors import error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


async def delete_records(
    caller: Caller, before: Mapping[TopicPartition, int]
) -> list[Outcome[int]]:
    async def ask(node_id: int, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        request = make(
            DeleteRecordsRequest,
            topics=tuple(
                make(
                    DeleteRecordsTopic,
                    name=topic,
                    partitions=tuple(
                        make(DeleteRecordsPartition, partition_index=partition, offset=offset)
                        for partition, offset in partitions.items()
                    ),
                )
                for topic, partitions in by_topic(wanted).items()
            ),
            timeout=caller.timeout_ms,
        )
        connection = await caller.cluster.connection(node_id)
        answer = await connection.request(ApiKey.DELETE_RECORDS, request)
        return {
            TopicPartition(topic.name, p.partition_index): (
                error_of(p.error_code) or p.low_watermark
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    return _outcomes(await caller.leaders(before, ask))


async def describe_producers(
    caller: Caller, partitions: Collection[TopicPartition]
) -> list[Outcome[list[ProducerState]]]:
    async def ask(node_id: int, wanted: dict[TopicPartition, None]) -> dict[TopicPartition, Any]:
        request = make(
            DescribeProducersRequest,
            topics=tuple(
                make(TopicRequest, name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in by_topic(wanted).items()
            ),
        )
        connection = await caller.cluster.connection(node_id)
        answer = await connection.request(ApiKey.DESCRIBE_PRODUCERS, request)
        return {
            TopicPartition(topic.name, p.partition_index): (
                error_of(p.error_code, p.error_message) or [_state(s) for s in p.active_producers]
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    return _outcomes(await caller.leaders(dict.fromkeys(partitions), ask))


def _outcomes(answers: Mapping[TopicPartition, Any]) -> list[Outcome[Any]]:
    return [
        Outcome(str(partition), None, answer)
        if isinstance(answer, KafkaError)
        else Outcome(str(partition), answer)
        for partition, answer in answers.items()
    ]


def _state(state: Any) -> ProducerState:
    start = state.current_txn_start_offset
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if start < 0 else start,
    )
