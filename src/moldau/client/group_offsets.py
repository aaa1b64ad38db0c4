"""Offsets of groups as requests carry them: for consumers, and for administrators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from moldau.client.routing import by_topic
from moldau.model import NO_TOPIC_ID, OffsetAndMetadata, TopicPartition
from moldau.wire.make import make
from moldau.wire.offset_shapes import OffsetCommitRequestPartition, OffsetCommitRequestTopic


def topics_to_commit(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, UUID]
) -> tuple[OffsetCommitRequestTopic, ...]:
    """Returns what an OffsetCommit says; ``ids`` has those of the topics that are known."""
    return tuple(
        make(
            OffsetCommitRequestTopic,
            name=topic,
            topic_id=ids.get(topic, NO_TOPIC_ID),
            partitions=tuple(
                make(
                    OffsetCommitRequestPartition,
                    partition_index=number,
                    committed_offset=offset.offset,
                    committed_leader_epoch=(
                        -1 if offset.leader_epoch is None else offset.leader_epoch
                    ),
                    committed_metadata=offset.metadata,
                )
                for number, offset in numbers.items()
            ),
        )
        for topic, numbers in by_topic(offsets).items()
    )


def committed_offset(partition: Any) -> OffsetAndMetadata:
    """Returns what an OffsetFetch answers for a partition that has an offset."""
    epoch = partition.committed_leader_epoch
    return OffsetAndMetadata(
        partition.committed_offset, partition.metadata or "", None if epoch < 0 else epoch
    )
