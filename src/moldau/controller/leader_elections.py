"""Duties that clients ask for: other leaders, preferred ones or any that are left (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.controller.active import ActiveController
from moldau.controller.elections import elect_preferred, revise
from moldau.controller.link import NO_LEADER, LeaderAndIsr
from moldau.controller.requests import PartitionResult
from moldau.controller.states import PartitionState
from moldau.errors import ErrorCode, KafkaError
from moldau.model import ElectionType, TopicPartition

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
        live = self._context.live_replicas(name, number, state.replicas)
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
        self._context.partition_states.move(elected, PartitionState.ONLINE)
        if elected:
            active.sender.send(active.take_changed())
        return elected
