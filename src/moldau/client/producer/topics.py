"""Keeps what a producer knows about its topics in step with the cluster."""

from __future__ import annotations

from moldau.client.metadata import NO_LEADER, ClusterMetadata
from moldau.client.producer.queue import TopicState


def update_topic(state: TopicState, metadata: ClusterMetadata) -> None:
    """Leaders and partitions as the cluster says; what it does not know any more stays."""
    info = metadata.topics.get(state.name)
    if info is None:
        return
    leaders = [NO_LEADER] * (max(info.partitions, default=-1) + 1)
    for number, partition in info.partitions.items():
        leaders[number] = partition.leader
    state.update(info.topic_id, leaders, info.with_leader)
