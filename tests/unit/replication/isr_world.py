"""The states of a small cluster with one partition: tuples of tuples, so that one that was seen is
known again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, TypeAlias

from tests.support.partitions import TOPIC_ID

from moldau.controller import LeaderAndIsr
from moldau.controller.elections import Circumstances
from moldau.coordination.znodes import BrokerRegistration
from moldau.replication.isr import Follower, InSyncReplicas, IsrChange

MIN_ISR = 2
BROKERS = (1, 2, 3)
NOBODY = -1

Record: TypeAlias = tuple[int, int, int]
"""Leader epoch, leader, the leader's broker epoch: with its offset, one record."""
Log: TypeAlias = tuple[Record, ...]


class Pending(NamedTuple):
    """``IsrChange``, as part of a state."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    isr_epochs: tuple[int, ...]
    added: tuple[int, ...]


class Leading(NamedTuple):
    """``InSyncReplicas``, as part of a state."""

    leader_epoch: int
    partition_epoch: int
    epoch_start: int
    committed: tuple[int, ...]
    maximal: tuple[int, ...]
    pending: Pending | None
    followers: tuple[tuple[int, int, int], ...]
    """Id, log end, broker epoch."""
    alive: tuple[int, ...]
    """Broker epochs as the leader knows them, in the order of ``BROKERS``; 0: not registered."""


class Following(NamedTuple):
    leader: int
    leader_epoch: int
    partition_epoch: int


class Broker(NamedTuple):
    epoch: int
    intact_since: int
    """The first of its lives since which it has lost nothing."""
    is_up: bool
    log: Log
    high_watermark: int
    role: Leading | Following | None


class Decision(NamedTuple):
    """The controller's state of the partition, and of the brokers that it knows to be there."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    last_known_leader: int
    live: tuple[int, ...]
    """Broker epochs in the order of ``BROKERS``; 0: not registered."""
    intact: tuple[int, ...]

    @property
    def eligible(self) -> tuple[int, ...]:
        return self.isr + self.elr

    @property
    def state(self) -> LeaderAndIsr:
        return LeaderAndIsr(
            topic="t",
            topic_id=TOPIC_ID,
            partition=0,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=self.isr,
            replicas=BROKERS,
            partition_epoch=self.partition_epoch,
            controller_epoch=1,
            elr=self.elr,
            last_known_leader=self.last_known_leader,
            broker_epochs=self.broker_epochs,
        )

    def changed(self, state: LeaderAndIsr) -> Decision:
        return self._replace(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
            elr=state.elr,
            broker_epochs=state.broker_epochs,
            last_known_leader=state.last_known_leader,
        )

    def knowing(self, number: int, epoch: int, intact_since: int) -> Decision:
        """The same with another registration of a broker."""
        live, intact = list(self.live), list(self.intact)
        live[number - 1], intact[number - 1] = epoch, intact_since
        return self._replace(live=tuple(live), intact=tuple(intact))

    @property
    def live_replicas(self) -> list[int]:
        return [number for number in BROKERS if self.live[number - 1]]

    @property
    def circumstances(self) -> Circumstances:
        return _circumstances(self.live, self.intact)


@cache
def _circumstances(live: tuple[int, ...], intact: tuple[int, ...]) -> Circumstances:
    brokers = {
        number: BrokerRegistration(number, (), None, epoch, since)
        for number, epoch, since in zip(BROKERS, live, intact, strict=True)
        if epoch
    }
    return Circumstances(brokers, 1, lambda _topic, _leader: MIN_ISR)


class Fetch(NamedTuple):
    """A fetch that is still on its way when its sender is gone."""

    follower: int
    broker_epoch: int
    leader: int
    leader_epoch: int
    offset: int


class LateRequest(NamedTuple):
    """A copy of a request to the controller whose leader does not wait for it any more."""

    change: Pending
    sender_epoch: int


class Bounds(NamedTuple):
    """How much of each may still happen."""

    appends: int = 0
    kills: int = 0
    cuts: int = 0
    expiries: int = 0
    changes: int = 0
    refusals: int = 0


class World(NamedTuple):
    brokers: tuple[Broker, ...]
    decisions: tuple[Decision, ...]
    """The controller's, oldest first: those that somebody may still be told, and the last."""
    late_fetches: frozenset[Fetch]
    late_requests: frozenset[LateRequest]
    visible: Log
    """The longest log that some leader showed to consumers."""
    cut: int
    """The broker that lost part of its log and has not caught up since; 0: none."""
    left: Bounds

    def broker(self, number: int) -> Broker:
        return self.brokers[number - 1]

    @property
    def decision(self) -> Decision:
        return self.decisions[-1]

    def with_broker(self, number: int, broker: Broker) -> World:
        brokers = self.brokers
        return self._replace(brokers=(*brokers[: number - 1], broker, *brokers[number:]))


def first_world(isr: tuple[int, ...], left: Bounds) -> World:
    """Broker 1 leads, the others know it; nothing is written yet."""
    live = (1, 1, 1)
    epochs = tuple([live[number - 1] for number in isr])
    decision = Decision(1, 0, 0, isr, (), epochs, NOBODY, live, live)
    leading = frozen(InSyncReplicas(1, 0, 0, BROKERS, isr, 0, 0), live)
    brokers = (
        Broker(1, 1, True, (), 0, leading),
        *(Broker(1, 1, True, (), 0, Following(1, 0, 0)) for _ in BROKERS[1:]),
    )
    return World(brokers, (decision,), frozenset(), frozenset(), (), 0, left)


def frozen(isr: InSyncReplicas, alive: tuple[int, ...]) -> Leading:
    change = isr.pending
    pending = None
    if change is not None:
        pending = Pending(
            isr.local_id,
            change.leader_epoch,
            change.partition_epoch,
            change.isr,
            change.isr_epochs,
            change.added,
        )
    return Leading(
        isr.leader_epoch,
        isr.partition_epoch,
        isr.epoch_start,
        isr.committed,
        isr.maximal,
        pending,
        tuple([(number, one.log_end, one.broker_epoch) for number, one in isr.followers.items()]),
        alive,
    )


def thawed(local_id: int, leading: Leading) -> InSyncReplicas:
    isr = InSyncReplicas(
        local_id,
        leading.leader_epoch,
        leading.partition_epoch,
        (),
        leading.committed,
        leading.epoch_start,
        0,
    )
    isr.maximal = leading.maximal
    if leading.pending is not None:
        isr.pending = IsrChange(*leading.pending[1:])
    for number, log_end, broker_epoch in leading.followers:
        isr.followers[number] = follower = Follower(0)
        follower.log_end = log_end
        follower.broker_epoch = broker_epoch
    return isr


def by_id(epochs: tuple[int, ...]) -> dict[int, int]:
    return {number: epochs[number - 1] for number in BROKERS if epochs[number - 1]}


def is_clean(world: World, number: int) -> bool:
    """Whether the controller knows this very life of the broker: only that can be elected."""
    broker = world.broker(number)
    return broker.is_up and world.decision.live[number - 1] == broker.epoch


def numbered(world: World) -> Iterator[tuple[int, Broker]]:
    return zip(BROKERS, world.brokers, strict=True)


def tidy(world: World) -> World:
    """Forget what cannot matter any more: fewer states say the same."""
    last = world.decision
    decisions = tuple(
        [one for one in world.decisions[:-1] if any(_takes(b, n, one) for n, b in numbered(world))]
    )
    fetches = frozenset(
        [
            fetch
            for fetch in world.late_fetches
            if isinstance(role := world.broker(fetch.leader).role, Leading)
            and role.leader_epoch <= fetch.leader_epoch
        ]
    )
    requests = frozenset(
        [one for one in world.late_requests if one.change.partition_epoch >= last.partition_epoch]
    )
    cut = world.cut
    if cut and cut in last.isr and is_clean(world, cut):
        cut = 0
    return world._replace(
        decisions=(*decisions, last), late_fetches=fetches, late_requests=requests, cut=cut
    )


def _takes(broker: Broker, number: int, decision: Decision) -> bool:
    known = -1 if broker.role is None else broker.role.partition_epoch
    return (
        broker.is_up
        and decision.live[number - 1] == broker.epoch
        and decision.partition_epoch > known
    )


def common(one: Log, other: Log) -> int:
    """How many records two logs begin with together."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
