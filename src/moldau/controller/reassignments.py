"""Duties that clients ask for: which brokers hold a partition's replicas (KIP-455).

Replicas do not move between brokers yet. What needs no move is answered as Kafka answers it, and so
is what no cluster could do.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.controller.active import ActiveController
from moldau.controller.create_topics import check_manual_replicas
from moldau.controller.link import LeaderAndIsr
from moldau.controller.requests import NewReplicas, OngoingReassignment, PartitionResult
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition


class Reassignments:
    def __init__(self, active: ActiveController) -> None:
        self._active = active
        self._context = active.context

    def alter(
        self, targets: Sequence[NewReplicas], *, allow_replication_factor_change: bool
    ) -> list[PartitionResult]:
        """Returns one result per target, in order."""
        results = []
        for target in targets:
            error = None
            try:
                self._check(target, allow_replication_factor_change)
            except KafkaError as refusal:
                error = refusal
            partition = TopicPartition(target.topic, target.partition)
            results.append(PartitionResult.of(partition, error))
        return results

    def _check(self, target: NewReplicas, allow_replication_factor_change: bool) -> None:
        state = self._state(target)
        if target.replicas is None:
            if not _is_moving(state):
                raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        else:
            check_manual_replicas(self._context, target.replicas, None)
            before, after = len(state.replicas), len(target.replicas)
            if before != after and not allow_replication_factor_change:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"The replication factor is changed from {before} to {after}",
                )
            if tuple(target.replicas) == state.replicas:
                return
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Replicas cannot move between brokers yet."
        )

    def _state(self, target: NewReplicas) -> LeaderAndIsr:
        name, number = target.topic, target.partition
        if self._context.existing_topic(name) is None:
            reason = f"Unable to find a topic named {name}."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        state = self._active.state(name, number)
        if state is None:
            reason = f"Unable to find partition {name}:{number}."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        return state

    def ongoing(self, partitions: Sequence[TopicPartition] | None) -> list[OngoingReassignment]:
        """Returns the partitions that are on the move, as another controller may have left them;
        of ``partitions`` only, if they are given.
        """
        wanted = None if partitions is None else set(partitions)
        return [
            OngoingReassignment(
                topic=state.topic,
                partition=state.partition,
                replicas=state.replicas,
                adding=state.adding_replicas,
                removing=state.removing_replicas,
            )
            for state in self._context.partitions()
            if _is_moving(state) and (wanted is None or state.topic_partition in wanted)
        ]


def _is_moving(state: LeaderAndIsr) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)
