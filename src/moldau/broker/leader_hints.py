"""Who leads instead, told with the errors of whoever asks the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from moldau.broker.broker import Broker
from moldau.errors import ErrorCode
from moldau.model import Node

HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors that a client finds another leader after."""


def current_leader(broker: Broker, topic: str, index: int) -> tuple[int, int] | None:
    """Returns the leader of a partition and its epoch, as this broker knows them."""
    partitions = broker.replicas.topics.get(topic)
    partition = None if partitions is None else partitions.get(index)
    if partition is not None:
        return partition.leader_id, partition.leader_epoch
    state = broker.metadata.partition(topic, index)
    return None if state is None else (state.leader, state.leader_epoch)


def leader_endpoints(broker: Broker, listener: str, leaders: Collection[int]) -> list[Node]:
    """Returns where clients of ``listener`` find these brokers, as far as they are there."""
    return [node for node in broker.metadata.nodes(listener) if node.id in leaders]
