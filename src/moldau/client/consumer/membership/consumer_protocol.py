"""A member under the consumer protocol (KIP-848) as a pure machine: the coordinator assigns.

One request does it all, ConsumerGroupHeartbeat: it tells what has changed about the member and
brings the assignment that the coordinator wants it to reconcile with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from moldau.client.consumer.membership.actions import (
    Action,
    CallBack,
    CallbackKind,
    ConsumerBeat,
    Identity,
)
from moldau.client.consumer.membership.member import NEVER, Member
from moldau.client.consumer.membership.states import CONSUMER_PREDECESSORS, ConsumerState
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

_FENCED: Final = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    # All its members were gone, or a coordinator lost its state with its disk: join anew.
    ErrorCode.GROUP_ID_NOT_FOUND,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

Target = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic id: how the coordinator names them."""

_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
_ACTIVE = {
    ConsumerState.JOINING,
    ConsumerState.RECONCILING,
    ConsumerState.ACKNOWLEDGING,
    ConsumerState.STABLE,
}


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """In seconds."""

    member_id: str
    max_poll_interval: float = ConsumerSettings.max_poll_interval_ms.default / 1000
    retry_backoff: float = ConsumerSettings.retry_backoff_ms.default / 1000
    static: bool = False


class ConsumerProtocolMember(Member):
    def __init__(self, options: ConsumerOptions) -> None:
        super().__init__(options.max_poll_interval)
        self.state = ConsumerState.LEFT
        self._options = options
        self._epoch = JOIN_EPOCH
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._owned: dict[TopicPartition, UUID] = {}
        self._target: Target | None = None
        self._names: Mapping[UUID, str] = {}
        self._interval = 0.0
        self._next_beat = NEVER
        self._beating = False
        self._tell_all = True
        self._tell_subscription = True
        self._tell_owned = True
        self._joining: dict[TopicPartition, UUID] = {}
        """What the assigned callback under way is about."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self._owned)

    @property
    def joined(self) -> bool:
        return self._epoch > JOIN_EPOCH

    @property
    def identity(self) -> Identity:
        return Identity(self._options.member_id, self._epoch)

    @property
    def is_content(self) -> bool:
        return self.state is ConsumerState.STABLE

    @property
    def unknown_topics(self) -> frozenset[UUID]:
        """Topics of the assignment whose names have to be looked up."""
        return frozenset(topic for topic in self._target or {} if topic not in self._names)

    # -- what the user does

    def subscribe(self, topics: Collection[str], pattern: str | None = None) -> None:
        wanted = frozenset(topics)
        if (wanted, pattern) != (self._topics, self._pattern):
            self._tell_subscription = True
            self._next_beat = 0.0
        self._topics, self._pattern = wanted, pattern
        if self.state is ConsumerState.LEFT:
            self._become(ConsumerState.JOINING)
            self._start_over()
        elif self.state is ConsumerState.FAILED:
            self.failure = None
            self._fenced()

    def leave(self) -> list[Action]:
        goodbye: list[Action] = []
        if self.joined or self._beating:
            goodbye.append(self._goodbye())
        self._start_over()
        self._owned = {}
        self._callbacks.clear()
        self._fresh_callbacks.clear()
        self._become(ConsumerState.LEFT)
        return goodbye

    def _polled(self) -> None:
        if self.state is ConsumerState.STALE:
            self._fenced()

    # -- what is to be done

    def actions(self, now: float) -> list[Action]:
        actions: list[Action] = []
        if self._poll_expired(now) and self.state in CONSUMER_PREDECESSORS[ConsumerState.STALE]:
            actions.append(self._goodbye())
            self._start_over()
            self._callbacks.clear()
            self._fresh_callbacks.clear()
            self._become(ConsumerState.STALE)
        if self.state is ConsumerState.FENCED and not self._callbacks and not self._in_callback:
            self._become(ConsumerState.JOINING)
        self._reconcile()
        if self._beat_is_due(now):
            self._beating = True
            actions.append(self._beat())
        return [*actions, *self._take_callbacks()]

    def wake_at(self) -> float:
        if self.state in (ConsumerState.LEFT, ConsumerState.FAILED, ConsumerState.STALE):
            return NEVER
        if self.state in _ACTIVE and not self._beating:
            return min(self._poll_deadline, self._next_beat)
        return self._poll_deadline

    def learn_names(self, names: Mapping[UUID, str]) -> None:
        """The cluster's topics by id, as far as they are known now; what we own has a name."""
        owned = {topic: partition.topic for partition, topic in self._owned.items()}
        self._names = {**owned, **names}

    def _reconcile(self) -> None:
        """Compare what the coordinator wants with what we own, and begin to change it."""
        if self._target is None or self._callbacks:
            return
        if self.state not in (
            ConsumerState.JOINING,
            ConsumerState.STABLE,
            ConsumerState.ACKNOWLEDGING,
        ):
            return
        wanted = {
            TopicPartition(self._names[topic], number): topic
            for topic, numbers in self._target.items()
            if topic in self._names
            for number in numbers
        }
        if wanted == self._owned and self.state is not ConsumerState.JOINING:
            return
        if self.state is ConsumerState.JOINING and not (wanted or not self.unknown_topics):
            return
        revoked = {
            partition for partition, topic in self._owned.items() if wanted.get(partition) != topic
        }
        kept = self._owned.keys() - revoked
        self._joining = {
            partition: topic for partition, topic in wanted.items() if partition not in kept
        }
        self._become(ConsumerState.RECONCILING)
        if revoked:
            self._call_back(CallbackKind.REVOKED, revoked)
        self._call_back(CallbackKind.ASSIGNED, self._joining)

    def _beat_is_due(self, now: float) -> bool:
        return self.state in _ACTIVE and not self._beating and now >= self._next_beat

    def _beat(self) -> ConsumerBeat:
        full = self._tell_all or self._epoch == JOIN_EPOCH
        reconciling = self.state is ConsumerState.RECONCILING
        owned = None
        if full or (self._tell_owned and not reconciling):
            owned = self._owned_by_topic()
            self._tell_owned = reconciling
        tell = full or self._tell_subscription
        self._tell_all = self._tell_subscription = False
        return ConsumerBeat(
            self.attempt,
            self._options.member_id,
            self._epoch,
            topics=self._topics if tell else None,
            pattern=(self._pattern or "") if tell else None,
            owned=owned,
            full=full,
        )

    def _goodbye(self) -> ConsumerBeat:
        epoch = LEAVE_STATIC_EPOCH if self._options.static else LEAVE_EPOCH
        return ConsumerBeat(self.attempt, self._options.member_id, epoch)

    # -- how it went

    def beat_answered(
        self,
        action: ConsumerBeat,
        epoch: int,
        interval: float,
        target: Target | None,
        now: float,
    ) -> None:
        if action.leaving or action.attempt != self.attempt:
            return
        self._beating = False
        self._epoch = epoch
        self._interval = interval
        # What changed while the heartbeat was under way is told at once.
        self._next_beat = 0.0 if self._tell_subscription else now + interval
        if target is not None:
            self._target = target
        if self.state is ConsumerState.ACKNOWLEDGING:
            if action.owned is not None:
                self._become(ConsumerState.STABLE)
            else:
                self._next_beat = 0.0
        elif self.state is ConsumerState.JOINING and self._target is None:
            self._target = {}

    def failed(self, action: Action, error: KafkaError, now: float) -> None:
        if not isinstance(action, ConsumerBeat) or action.leaving:
            return
        if action.attempt != self.attempt:
            return
        self._beating = False
        # The lost answer may have carried the assignment, which only a full request brings again.
        self._tell_all = True
        self._tell_owned = True
        if error.code in _FENCED:
            self._fenced()
        elif error.retriable or error.code in _AGAIN:
            self._next_beat = now + self._options.retry_backoff
        else:
            self.failure = error
            self._become(ConsumerState.FAILED)

    def _fenced(self) -> None:
        self._start_over()
        self._callbacks.clear()
        self._fresh_callbacks.clear()
        self._become(ConsumerState.FENCED)
        if self._owned:
            self._call_back(CallbackKind.LOST, self._owned)

    def _carried_out(self, callback: CallBack) -> None:
        if callback.kind is CallbackKind.ASSIGNED:
            self._owned |= self._joining
        else:
            for partition in callback.partitions:
                self._owned.pop(partition, None)
        if not self._callbacks and self.state is ConsumerState.RECONCILING:
            self._become(ConsumerState.ACKNOWLEDGING)
            self._tell_owned = True
            self._next_beat = 0.0

    def _overtaken(self, callback: CallBack) -> None:
        """The coordinator dropped us during the callback, or the user unsubscribed in it."""
        if callback.kind is not CallbackKind.ASSIGNED:
            for partition in callback.partitions:
                self._owned.pop(partition, None)
        elif self.state is not ConsumerState.LEFT and callback.partitions:
            self._owned |= self._joining
            self._call_back(CallbackKind.LOST, callback.partitions)

    def _start_over(self) -> None:
        """The next heartbeat is that of a new member."""
        self.attempt += 1
        self._epoch = JOIN_EPOCH
        self._target = None
        self._beating = False
        self._next_beat = 0.0
        self._tell_subscription = True
        self._tell_owned = True

    def _owned_by_topic(self) -> dict[UUID, tuple[int, ...]]:
        topics: dict[UUID, list[int]] = defaultdict(list)
        for partition, topic in sorted(self._owned.items()):
            topics[topic].append(partition.partition)
        return {topic: tuple(numbers) for topic, numbers in topics.items()}

    def _become(self, state: ConsumerState) -> None:
        if self.state not in CONSUMER_PREDECESSORS[state]:
            raise ValueError(f"a member cannot go from {self.state.value} to {state.value}")
        self.state = state
