"""WriteTxnMarkers (key 27, versions 1-2): end transactions in partitions that this broker leads.

Behaviour: asked by transaction coordinators, and by administrators who abort a hanging transaction
(KIP-664). Each marker is answered when it is stored on all in-sync replicas; those for
``__consumer_offsets`` go through the group coordinator. A marker of an earlier coordinator is
TRANSACTION_COORDINATOR_FENCED, one of an earlier producer INVALID_PRODUCER_EPOCH.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from moldau.broker.request import Request
from moldau.broker.transaction_markers import Errors, write_markers
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.records.control import TransactionMarker
from moldau.transactions.metadata import TransactionVersion
from moldau.wire.make import make


async def handle(request: Request[WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse:
    results = []
    for written in request.body.markers:
        marker = TransactionMarker(
            written.producer_id,
            written.producer_epoch,
            written.transaction_result,
            written.coordinator_epoch,
            written.transaction_version >= TransactionVersion.TV_2,
        )
        results.append(
            _result(written, await write_markers(request.broker, marker, _partitions(written)))
        )
    return make(WriteTxnMarkersResponse, markers=tuple(results))


def error_answer(
    request: Request[WriteTxnMarkersRequest], error: KafkaError
) -> WriteTxnMarkersResponse:
    return make(
        WriteTxnMarkersResponse,
        markers=tuple(
            _result(written, dict.fromkeys(_partitions(written), error.code))
            for written in request.body.markers
        ),
    )


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


def _result(marker: WritableTxnMarker, errors: Errors) -> WritableTxnMarkerResult:
    return make(
        WritableTxnMarkerResult,
        producer_id=marker.producer_id,
        topics=tuple(
            make(
                WritableTxnMarkerTopicResult,
                name=topic.name,
                partitions=tuple(
                    make(
                        WritableTxnMarkerPartitionResult,
                        partition_index=index,
                        error_code=errors[TopicPartition(topic.name, index)],
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
