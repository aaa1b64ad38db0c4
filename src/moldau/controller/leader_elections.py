"""Duties that clients ask for: other leaders, preferred ones or any that are left (KIP-460)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from moldau.controller.active import ActiveController
from moldau.controller.balancing import unbalanced
from moldau.controller.elections import elect_preferred, revise
from moldau.controller.link import NO_LEADER, LeaderAndIsr
from moldau.controller.requests import PartitionResult
from moldau.errors import ErrorCode, KafkaError
from moldau.model import ElectionType, TopicPartition

logger = logging.getLogger(__name__)

_NOBODY = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class LeaderElections:
    def __init__(self, active: ActiveController) -> None:
        self._active = active
        self._context = active.context

    async def elect(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> list[PartitionResult]:
        """Returns a result for each mention of a partition; None asks for every partition."""
        if partitions is None:
            partitions = [state.topic_partition for state in self._context.partitions()]
        decisions = {partition: self._decide(kind, partition) for partition in partitions}
        elected = await self._carry_out(
            decision for decision in decisions.values() if isinstance(decision, LeaderAndIsr)
        )
        # Somebody else wrote the states that could not be written, and may have had better reasons.
        errors = {
            partition: KafkaError(_NOBODY[kind]) if isinstance(decision, LeaderAndIsr) else decision
            for partition, decision in decisions.items()
            if partition not in elected
        }
        return [PartitionResult.of(partition, errors.get(partition)) for partition in partitions]

    async def balance(self, percentage: int) -> None:
        """Have preferred leaders lead again where too many of them do not."""
        context, now = self._context, self._active.circumstances
        elected = [
            new
            for state in unbalanced(context.partitions(), percentage)
            if state.replicas[0] not in context.shutting_down
            and (new := elect_preferred(state, self._live(state), now)) is not None
        ]
        if elected:
            logger.info("%d partitions get their preferred leaders again", len(elected))
            await self._carry_out(elected)

    def _live(self, state: LeaderAndIsr) -> list[int]:
        return self._context.live_replicas(state.topic, state.partition, state.replicas)

    def _decide(self, kind: ElectionType, partition: TopicPartition) -> LeaderAndIsr | KafkaError:
        name, number = partition
        if self._context.existing_topic(name) is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        state = self._active.state(name, number)
        if state is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {partition}"
            )
        now = self._active.circumstances
        live = self._live(state)
        if kind is ElectionType.PREFERRED:
            needed = state.leader != state.replicas[0]
            elected = elect_preferred(state, live, now) if needed else None
        else:
            needed = state.leader == NO_LEADER
            elected = revise(state, live, now, unclean=True) if needed else None
            if elected is not None and elected.leader == NO_LEADER:
                elected = None
        if not needed:
            return KafkaError(
                ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
            )
        return elected or KafkaError(_NOBODY[kind])

    async def _carry_out(self, states: Iterable[LeaderAndIsr]) -> set[TopicPartition]:
        active = self._active
        elected = {state.topic_partition for state in await active.update(list(states))}
        active.sender.send(active.take_changed())
        return elected
