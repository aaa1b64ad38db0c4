"""Who leads a partition, and who is in sync: one function per occasion, from what is known to the
partition's next state.

A replica that is in sync has everything that was ever acknowledged to ``acks=all``. So has one
that left the in-sync replicas when fewer than ``min.insync.replicas`` stayed, because nothing is
acknowledged by so few: such replicas are *eligible leaders*, too (KIP-966), until enough are in
sync again. Neither holds for a replica that came back without its latest records. A state remembers
in which life of its broker (the broker epoch) a replica was in sync or eligible; a broker says,
when it registers, since which of its lives it has lost nothing (``intact_since``). So whoever reads
the state and the registrations knows all there is to know, whatever it has missed.

If everybody who could lead has come back with losses, whoever led last is the best there is.

``live`` are the replicas that can serve, in the order of the assignment: the first, the preferred
one, wins where it can. Why it is so: docs/adr/0023-who-may-lead.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from moldau.controller.link import NO_LEADER, LeaderAndIsr
from moldau.coordination.znodes import RECOVERING, BrokerRegistration


class Circumstances(NamedTuple):
    """What decisions depend on besides the partition."""

    brokers: Mapping[int, BrokerRegistration]
    """Those that are up."""
    controller_epoch: int
    min_isr: Callable[[str, int], int]
    """How many replicas of a topic must be in sync, as a broker that leads it will see it."""


def revise(
    state: LeaderAndIsr, live: Sequence[int], now: Circumstances, *, unclean: bool = False
) -> LeaderAndIsr | None:
    """Returns what has to become of a partition by who is up, or None if it can stay as it is.

    A broker that restarted is not in sync before it has caught up; it leads again if no other
    in-sync replica can. With ``unclean`` any replica leads before none does.
    """
    if len(state.replicas) == 1:
        return _revise_sole(state, live, now)
    members = _Members(state, live, now)
    steady = members.steady_isr
    if state.leader in steady:
        return members.under_same_leader(steady)
    leader = members.next_leader()
    if leader is not None:
        return members.under(leader, steady if leader in steady else (leader,))
    if unclean and live:
        return members.under(live[0], (live[0],), RECOVERING)
    return members.under_nobody()


def _revise_sole(
    state: LeaderAndIsr, live: Sequence[int], now: Circumstances
) -> LeaderAndIsr | None:
    """The only replica leads whenever it can: nobody has more. All partitions of a broker without
    others are such, ten thousand of them at its start.
    """
    (sole,) = state.replicas
    leader, epochs = NO_LEADER, state.broker_epochs
    if sole in live:
        leader, epochs = sole, (now.brokers[sole].epoch,)
    if leader == state.leader and epochs == state.broker_epochs:
        return None
    return LeaderAndIsr(
        state.topic,
        state.topic_id,
        state.partition,
        leader,
        state.leader_epoch + 1,
        state.replicas,
        state.replicas,
        state.partition_epoch + 1,
        now.controller_epoch,
        state.leader_recovery_state,
        state.offline_replicas,
        state.adding_replicas,
        state.removing_replicas,
        broker_epochs=epochs,
    )


def elect_preferred(
    state: LeaderAndIsr, live: Sequence[int], now: Circumstances
) -> LeaderAndIsr | None:
    """Balance: the first of the assignment leads, if it is live and in sync."""
    members = _Members(state, live, now)
    isr = members.steady_isr
    return members.under(state.replicas[0], isr) if state.replicas[0] in isr else None


def elect_for_shutdown(
    state: LeaderAndIsr, live: Sequence[int], leaving: int, now: Circumstances
) -> LeaderAndIsr | None:
    """A broker is about to stop: another in-sync replica leads, and those in sync do without it.

    None if nobody else can, or if the broker has no part in it.
    """
    members = _Members(state, live, now)
    isr = tuple(replica for replica in members.steady_isr if replica != leaving)
    if leaving not in state.isr or not isr:
        return None
    if state.leader != leaving:
        return members.under_same_leader(isr) if state.leader in isr else None
    return members.under(next(replica for replica in live if replica in isr), isr)


def without_eligible(state: LeaderAndIsr, now: Circumstances) -> LeaderAndIsr:
    """Returns the same with nobody eligible who is not in sync."""
    return _Members(state, (), now).next_state(state.isr, ())


def renewed(state: LeaderAndIsr, now: Circumstances) -> LeaderAndIsr:
    """Returns the same as a newer state: whatever was asked of the old one is overtaken."""
    return msgspec.structs.replace(
        state,
        partition_epoch=state.partition_epoch + 1,
        controller_epoch=now.controller_epoch,
        is_new=False,
    )


def in_earlier_life(state: LeaderAndIsr, replica: int, now: Circumstances) -> bool:
    """Whether a replica is in sync only as its broker was before it restarted."""
    if replica not in state.isr:
        return False
    return not _Members(state, (replica,), now).is_steady(replica)


def with_isr(
    state: LeaderAndIsr,
    live: Sequence[int],
    now: Circumstances,
    isr: tuple[int, ...],
    leader_recovery_state: int,
) -> LeaderAndIsr:
    """Returns the same leadership with the in-sync replicas that the leader wants."""
    members = _Members(state, live, now)
    return msgspec.structs.replace(
        members.next_state(isr, members.eligible_beside(state.leader, isr)),
        leader_recovery_state=leader_recovery_state,
    )


class _Members:
    """The replicas that could lead a partition, as they were when its state was written, and as
    they are now.
    """

    def __init__(self, state: LeaderAndIsr, live: Sequence[int], now: Circumstances) -> None:
        self._state = state
        self._live = live
        self._now = now
        self._all = (*state.isr, *state.elr)
        self._epochs = dict(zip(self._all, state.broker_epochs, strict=False))

    def is_steady(self, replica: int) -> bool:
        """Whether it can serve, and its broker has not restarted."""
        if replica not in self._live:
            return False
        epoch = self._now.brokers[replica].epoch
        return self._epochs.get(replica, epoch) == epoch

    @property
    def steady_isr(self) -> tuple[int, ...]:
        return tuple([replica for replica in self._state.isr if self.is_steady(replica)])

    def has_lost(self, replica: int) -> bool:
        """Whether it is back without what it had. Of one that is away nobody knows yet."""
        broker = self._now.brokers.get(replica)
        epoch = self._epochs.get(replica)
        return broker is not None and epoch is not None and broker.intact_since > epoch

    @property
    def _eligible(self) -> list[int]:
        return [replica for replica in self._all if not self.has_lost(replica)]

    @property
    def _last_leader(self) -> int:
        state = self._state
        last = state.leader if state.leader != NO_LEADER else state.last_known_leader
        return last if last in state.replicas else self._all[-1]

    def next_leader(self) -> int | None:
        state = self._state
        eligible = self._eligible
        for may_lead in (
            self.steady_isr,
            [replica for replica in state.isr if replica in eligible],
            eligible or [self._last_leader],
        ):
            for replica in self._live:
                if replica in may_lead:
                    return replica
        return None

    # Next states

    def under_same_leader(self, isr: tuple[int, ...]) -> LeaderAndIsr | None:
        state = self._state
        elr = self.eligible_beside(state.leader, isr)
        if isr == state.isr and elr == state.elr:
            return None
        return self.next_state(isr, elr)

    def under(
        self, leader: int, isr: tuple[int, ...], leader_recovery_state: int | None = None
    ) -> LeaderAndIsr:
        """A new leadership, also of a leader whose broker restarted."""
        state = self._state
        unclean = leader_recovery_state is not None
        return msgspec.structs.replace(
            self.next_state(isr, () if unclean else self.eligible_beside(leader, isr)),
            leader=leader,
            leader_epoch=state.leader_epoch + 1,
            leader_recovery_state=(
                state.leader_recovery_state
                if leader_recovery_state is None
                else leader_recovery_state
            ),
            last_known_leader=NO_LEADER,
        )

    def under_nobody(self) -> LeaderAndIsr | None:
        """Whoever of those that could lead comes back first will."""
        state = self._state
        isr = tuple(self._eligible) or (self._last_leader,)
        if state.leader != NO_LEADER:
            return msgspec.structs.replace(
                self.next_state(isr, ()),
                leader=NO_LEADER,
                leader_epoch=state.leader_epoch + 1,
                last_known_leader=state.leader,
            )
        return None if isr == state.isr and not state.elr else self.next_state(isr, ())

    def eligible_beside(self, leader: int, isr: Collection[int]) -> tuple[int, ...]:
        """Returns those that are not in sync and could lead all the same."""
        if len(isr) >= self._now.min_isr(self._state.topic, leader):
            return ()
        return tuple(replica for replica in self._eligible if replica not in isr)

    def next_state(self, isr: tuple[int, ...], elr: tuple[int, ...]) -> LeaderAndIsr:
        state = self._state
        return msgspec.structs.replace(
            state,
            isr=isr,
            elr=elr,
            broker_epochs=(*self._present_epochs(isr), *[self._epochs[one] for one in elr]),
            partition_epoch=state.partition_epoch + 1,
            controller_epoch=self._now.controller_epoch,
            is_new=False,
        )

    def _present_epochs(self, replicas: Iterable[int]) -> list[int]:
        """Of replicas that are in sync as they are now; of those that are away, as they were."""
        brokers, known = self._now.brokers, self._epochs
        return [
            brokers[replica].epoch if replica in brokers else known.get(replica, -1)
            for replica in replicas
        ]
