"""What a fetch asks for: of each partition, and as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from moldau.model import TopicPartition
from moldau.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

CONSUMER: Final = -1
"""The replica id of whoever is no follower."""
NO_EPOCH: Final = -1

NO_SESSION: Final = 0
FULL_EPOCH: Final = 0
"""Of the first fetch of a session, which has all partitions."""
FINAL_EPOCH: Final = -1
"""Of a fetch without a session."""


class PartitionFetch(NamedTuple):
    """What is asked of one partition."""

    topic_id: UUID
    offset: int
    max_bytes: int
    leader_epoch: int = NO_EPOCH
    """The leader's, as far as known: a broker that knows of another refuses."""
    last_fetched_epoch: int = NO_EPOCH
    """A follower's, of its last record: the leader says where their logs part (KIP-595)."""
    log_start_offset: int = -1
    """A follower's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParams:
    """What holds for all partitions of a fetch."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    rack_id: str = ""
    replica_id: int = CONSUMER
    replica_epoch: int = NO_EPOCH
    """A follower's broker epoch (KIP-903)."""


class SessionFetch(NamedTuple):
    """The parts of a request that depend on the session."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]

    def request(self, params: FetchParams) -> FetchRequest:
        return FetchRequest(
            replica_id=params.replica_id,
            replica_epoch=params.replica_epoch,
            max_wait_ms=params.max_wait_ms,
            min_bytes=params.min_bytes,
            max_bytes=params.max_bytes,
            isolation_level=1 if params.read_committed else 0,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=self.topics,
            forgotten=self.forgotten,
            rack_id=params.rack_id,
        )


def without_session(partitions: Mapping[TopicPartition, PartitionFetch]) -> SessionFetch:
    return SessionFetch(NO_SESSION, FINAL_EPOCH, by_topic(partitions), [])


def by_topic(partitions: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    """Returns partitions as requests nest them."""
    topics: dict[str, FetchTopic] = {}
    for (name, number), wanted in partitions.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(name, wanted.topic_id, [])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                log_start_offset=wanted.log_start_offset,
                max_bytes=wanted.max_bytes,
            )
        )
    return list(topics.values())
