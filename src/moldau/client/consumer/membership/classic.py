"""A member of a classic group as a pure machine: JoinGroup → SyncGroup → Heartbeat, and around.

With eager assignors a member gives up everything before it joins; with cooperative ones only what
the new assignment takes away, after which the group rebalances once more and hands it on (KIP-429).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from moldau.client.consumer.assignors import Assignor, MemberSubscription, RebalanceProtocol
from moldau.client.consumer.assignors.choice import shared_protocol
from moldau.client.consumer.assignors.embedded import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from moldau.client.consumer.membership.actions import (
    Action,
    Beat,
    CallBack,
    CallbackKind,
    Identity,
    Join,
    JoinAnswer,
    Leave,
    RunAssignor,
    Sync,
)
from moldau.client.consumer.membership.member import NEVER, Member
from moldau.client.consumer.membership.states import CLASSIC_PREDECESSORS, ClassicState
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

NO_GENERATION = -1

_DROPPED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
"""The group has gone on without us."""

_AGAIN = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.BROKER_NOT_AVAILABLE,
}

_BEATING = {
    ClassicState.PREPARING,
    ClassicState.SYNCING,
    ClassicState.COMPLETING,
    ClassicState.STABLE,
}


@dataclass(frozen=True, slots=True)
class ClassicOptions:
    """In seconds."""

    heartbeat_interval: float = ConsumerSettings.heartbeat_interval_ms.default / 1000
    max_poll_interval: float = ConsumerSettings.max_poll_interval_ms.default / 1000
    retry_backoff: float = ConsumerSettings.retry_backoff_ms.default / 1000
    instance_id: str | None = None
    rack: str | None = None


class ClassicMember(Member):
    def __init__(self, options: ClassicOptions, assignors: Sequence[Assignor]) -> None:
        super().__init__(options.max_poll_interval)
        self.state = ClassicState.LEFT
        self._options = options
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = shared_protocol(assignors)
        self._topics: frozenset[str] = frozenset()
        self._member_id = ""
        self._generation = NO_GENERATION
        self._synced = Identity("", NO_GENERATION)
        """In the last generation that gave this member a share."""
        self._assignor = ""
        self._owned: frozenset[TopicPartition] = frozenset()
        self._lost = False
        """What we own may be somebody else's: to be given up as lost before anything else."""
        self._rejoin = ""
        """Why the group has to rebalance; empty if it need not."""
        self._retry_at = 0.0
        self._next_beat = NEVER
        self._beating = False
        self.is_leader = False

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self._owned

    @property
    def joined(self) -> bool:
        return self._generation != NO_GENERATION

    @property
    def identity(self) -> Identity:
        return Identity(self._member_id, self._generation)

    @property
    def owner(self) -> Identity:
        """A generation that was only joined is not written down: a coordinator that takes over
        gives its number to another.
        """
        return self._synced

    @property
    def is_content(self) -> bool:
        return self.state is ClassicState.STABLE

    # -- what the user does

    def subscribe(self, topics: Collection[str], pattern: str | None = None) -> None:
        if pattern is not None:
            raise ValueError("classic groups know topics by name")
        wanted = frozenset(topics)
        changed, self._topics = wanted != self._topics, wanted
        if self.state is ClassicState.LEFT:
            self._become(ClassicState.UNJOINED)
        elif self.state is ClassicState.FAILED:
            self.failure = None
            self._forget_member()
            self._lost = True
            self._become(ClassicState.UNJOINED)
        elif changed:
            self.request_rejoin("the subscription has changed")

    def request_rejoin(self, reason: str) -> None:
        """The group has to divide its partitions anew, as soon as it is done with this time."""
        self._rejoin = reason

    def leave(self) -> list[Action]:
        goodbye: list[Action] = []
        if self._member_id and self._options.instance_id is None:
            goodbye.append(Leave(self._member_id, "the consumer unsubscribed or was closed"))
        self._forget_member()
        self._owned = frozenset()
        self._callbacks.clear()
        self._fresh_callbacks.clear()
        self._lost = False
        self._rejoin = ""
        self._become(ClassicState.LEFT)
        return goodbye

    def _polled(self) -> None:
        if self.state is ClassicState.STALE:
            self._become(ClassicState.UNJOINED)

    # -- what is to be done

    def actions(self, now: float) -> list[Action]:
        actions: list[Action] = []
        if self._poll_expired(now) and self.state in CLASSIC_PREDECESSORS[ClassicState.STALE]:
            actions += self._give_way()
        if self.state is ClassicState.STABLE and self._rejoin:
            self._become(ClassicState.UNJOINED)
        if self.state is ClassicState.UNJOINED and now >= self._retry_at:
            self._become(ClassicState.PREPARING)
            self._give_up_partitions()
        if self.state is ClassicState.PREPARING and not self._callbacks:
            self._become(ClassicState.JOINING)
            actions.append(self._join())
        if self._beat_is_due(now):
            self._beating = True
            actions.append(Beat(self.attempt, self._member_id, self._generation))
        return [*actions, *self._take_callbacks()]

    def wake_at(self) -> float:
        if self.state in (ClassicState.LEFT, ClassicState.FAILED, ClassicState.STALE):
            return NEVER
        wake = self._poll_deadline
        if self.state is ClassicState.UNJOINED:
            wake = min(wake, self._retry_at)
        if self.state in _BEATING and self.joined and not self._beating:
            wake = min(wake, self._next_beat)
        return wake

    def _beat_is_due(self, now: float) -> bool:
        return (
            self.state in _BEATING and self.joined and not self._beating and now >= self._next_beat
        )

    def _give_way(self) -> list[Action]:
        """The user is too slow: others shall have the partitions."""
        goodbye: list[Action] = []
        if self._member_id and self._options.instance_id is None:
            goodbye.append(Leave(self._member_id, "max.poll.interval.ms passed without a poll"))
        self._forget_member()
        self._lost = True
        self._callbacks.clear()
        self._fresh_callbacks.clear()
        self._become(ClassicState.STALE)
        return goodbye

    def _give_up_partitions(self) -> None:
        if self._lost or not self.joined:
            self._lost = False
            if self._owned:
                self._call_back(CallbackKind.LOST, self._owned)
        elif self._protocol is RebalanceProtocol.EAGER:
            if self._owned:
                self._call_back(CallbackKind.REVOKED, self._owned)
        else:
            unwanted = {
                partition for partition in self._owned if partition.topic not in self._topics
            }
            if unwanted:
                self._call_back(CallbackKind.REVOKED, unwanted)

    def _join(self) -> Join:
        self.attempt += 1
        reason, self._rejoin = self._rejoin or "first join", ""
        owned = tuple(sorted(self._owned))
        return Join(
            self.attempt,
            self._member_id,
            tuple(
                (
                    name,
                    encode_subscription(
                        MemberSubscription(
                            tuple(sorted(self._topics)),
                            owned=owned,
                            generation=self._generation,
                            rack=self._options.rack,
                            user_data=assignor.user_data(owned),
                        )
                    ),
                )
                for name, assignor in self._assignors.items()
            ),
            reason,
        )

    # -- how it went

    def join_answered(self, action: Join, answer: JoinAnswer, now: float) -> list[Action]:
        if action.attempt != self.attempt or self.state is not ClassicState.JOINING:
            return []
        self._member_id, self._generation = answer.member_id, answer.generation
        self._assignor = answer.protocol
        self._next_beat = now + self._options.heartbeat_interval
        self._become(ClassicState.SYNCING)
        self.is_leader = answer.leader == answer.member_id
        if self.is_leader and not answer.skip_assignment:
            return [RunAssignor(self.attempt, answer.protocol, answer.members)]
        return [self._sync({})]

    def assigned(
        self, action: RunAssignor, plan: Mapping[str, Sequence[TopicPartition]]
    ) -> list[Action]:
        """The leader's assignor has divided the partitions."""
        if action.attempt != self.attempt or self.state is not ClassicState.SYNCING:
            return []
        return [self._sync({name: encode_assignment(mine) for name, mine in plan.items()})]

    def assign(
        self, action: RunAssignor, layout: Mapping[str, Sequence[frozenset[str]]]
    ) -> list[Action]:
        """Divide the partitions of topics that look like this."""
        return self.assigned(
            action, self._assignors[action.assignor].assign(layout, action.members)
        )

    def sync_answered(self, action: Sync, assignment: bytes, now: float) -> None:
        if action.attempt != self.attempt or self.state is not ClassicState.SYNCING:
            return
        try:
            share = frozenset(decode_assignment(assignment))
        except KafkaError as error:
            self._fail(error)
            return
        self._next_beat = min(self._next_beat, now + self._options.heartbeat_interval)
        self._become(ClassicState.COMPLETING)
        self._synced = self.identity
        taken_away = self._owned - share
        if taken_away:
            self._call_back(CallbackKind.REVOKED, taken_away)
            self.request_rejoin("partitions were given up for other members")
        self._assignors[self._assignor].on_assignment(sorted(share), self._generation)
        self._call_back(CallbackKind.ASSIGNED, share - self._owned)

    def beat_answered(self, action: Beat, now: float) -> None:
        self._beating = False
        if action.attempt == self.attempt:
            self._next_beat = now + self._options.heartbeat_interval

    def failed(self, action: Action, error: KafkaError, now: float) -> None:
        if isinstance(action, Beat):
            self._beating = False
        if isinstance(action, Leave) or getattr(action, "attempt", -1) != self.attempt:
            return
        if self.state is ClassicState.FAILED:
            return
        if isinstance(action, Beat):
            self._beat_failed(error, now)
        elif error.code == ErrorCode.MEMBER_ID_REQUIRED:
            raise ValueError("member_id_given() is for this")
        elif self.state in (ClassicState.JOINING, ClassicState.SYNCING):
            self._attempt_failed(error, now)

    def member_id_given(self, action: Join, member_id: str) -> list[Action]:
        """The coordinator wants the same request with the id that it gave (KIP-394)."""
        if action.attempt != self.attempt or self.state is not ClassicState.JOINING:
            return []
        self._member_id = member_id
        return [Join(self.attempt, member_id, action.protocols, action.reason)]

    def _attempt_failed(self, error: KafkaError, now: float) -> None:
        if error.code in _DROPPED:
            self._forget_member(keep_id=error.code == ErrorCode.ILLEGAL_GENERATION)
            self._lost = True
        elif not (error.retriable or error.code in _AGAIN):
            self._fail(error)
            return
        elif error.code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._retry_at = now + self._options.retry_backoff
        self._rejoin = self._rejoin or f"the last attempt failed: {error.code.name}"
        self._become(ClassicState.UNJOINED)

    def _beat_failed(self, error: KafkaError, now: float) -> None:
        self._next_beat = now + self._options.heartbeat_interval
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is ClassicState.STABLE:
                self.request_rejoin("the group is rebalancing")
        elif error.code in _DROPPED:
            self._forget_member(keep_id=error.code == ErrorCode.ILLEGAL_GENERATION)
            self._lost = True
            self.request_rejoin(f"the coordinator said {error.code.name}")
            if self.state is ClassicState.SYNCING:
                self._become(ClassicState.UNJOINED)
        elif error.retriable or error.code in _AGAIN:
            self._next_beat = now + self._options.retry_backoff
        else:
            self._fail(error)

    def _carried_out(self, callback: CallBack) -> None:
        if callback.kind is CallbackKind.ASSIGNED:
            self._owned |= callback.partitions
        else:
            self._owned -= callback.partitions
        if self._callbacks:
            return
        if self.state is ClassicState.COMPLETING:
            self._become(ClassicState.STABLE)
        elif self.state is ClassicState.PREPARING and self._lost:
            self._give_up_partitions()

    def _overtaken(self, callback: CallBack) -> None:
        """The user unsubscribed in the callback: nothing is owned any more."""

    def _forget_member(self, *, keep_id: bool = False) -> None:
        self.attempt += 1
        self._generation = NO_GENERATION
        self._synced = Identity("", NO_GENERATION)
        self._beating = False
        self.is_leader = False
        if not keep_id:
            self._member_id = ""

    def _fail(self, error: KafkaError) -> None:
        self.failure = error
        self._become(ClassicState.FAILED)

    def _sync(self, assignments: Mapping[str, bytes]) -> Sync:
        return Sync(self.attempt, self._member_id, self._generation, self._assignor, assignments)

    def _become(self, state: ClassicState) -> None:
        if self.state not in CLASSIC_PREDECESSORS[state]:
            raise ValueError(f"a member cannot go from {self.state.value} to {state.value}")
        self.state = state
