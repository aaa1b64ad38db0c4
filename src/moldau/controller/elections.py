"""Who leads a partition: one function per occasion, from what is known to a leader or none.

``live`` are the replicas that can serve. Replicas are asked in the order of the assignment, so the
first, the preferred one, wins where it can.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from moldau.controller.link import NO_LEADER, LeaderAndIsr
from moldau.coordination.znodes import RECOVERING


def offline_leader(
    replicas: Sequence[int], isr: Collection[int], live: Collection[int], *, unclean: bool
) -> int | None:
    """The leader died: the first live in-sync replica; with ``unclean``, else any live one."""
    for replica in replicas:
        if replica in live and replica in isr:
            return replica
    if unclean:
        return next((replica for replica in replicas if replica in live), None)
    return None


def preferred_leader(
    replicas: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """Balance: the first of the assignment, if it is live and in sync."""
    first = replicas[0] if replicas else None
    return first if first in live and first in isr else None


def reassignment_leader(
    target: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """The replicas move: the first live in-sync one among those that stay."""
    return next((replica for replica in target if replica in live and replica in isr), None)


def controlled_shutdown_leader(
    replicas: Sequence[int],
    isr: Collection[int],
    live: Collection[int],
    leaving: Collection[int],
) -> int | None:
    """A broker is about to stop: the first live in-sync replica that is not on it."""
    for replica in replicas:
        if replica in live and replica in isr and replica not in leaving:
            return replica
    return None


def elect_offline(
    state: LeaderAndIsr,
    live: Collection[int],
    controller_epoch: int,
    *,
    unclean: bool,
    restarted: Collection[int] = (),
) -> LeaderAndIsr | None:
    """Returns a new leadership for a partition whose leader is gone; None if nobody can lead.

    A broker in ``restarted`` came back before its absence was noticed. It may lead again only if
    no other in-sync replica can, for it may have lost what it had not yet written.
    """
    steady = [replica for replica in live if replica not in restarted] if restarted else live
    leader = offline_leader(state.replicas, state.isr, steady, unclean=False)
    if leader is None and restarted:
        steady = live
        leader = offline_leader(state.replicas, state.isr, live, unclean=False)
    if leader is not None:
        isr = tuple([replica for replica in state.isr if replica in steady])
        return changed(state, leader, isr, controller_epoch)
    leader = offline_leader(state.replicas, state.isr, live, unclean=unclean)
    if leader is None:
        return None
    return changed(state, leader, (leader,), controller_epoch, RECOVERING)


def elect_preferred(
    state: LeaderAndIsr, live: Collection[int], controller_epoch: int
) -> LeaderAndIsr | None:
    leader = preferred_leader(state.replicas, state.isr, live)
    return None if leader is None else changed(state, leader, state.isr, controller_epoch)


def elect_for_shutdown(
    state: LeaderAndIsr, live: Collection[int], leaving: Collection[int], controller_epoch: int
) -> LeaderAndIsr | None:
    leader = controlled_shutdown_leader(state.replicas, state.isr, live, leaving)
    if leader is None:
        return None
    isr = tuple(replica for replica in state.isr if replica not in leaving)
    return changed(state, leader, isr, controller_epoch)


def without_replicas(
    state: LeaderAndIsr, gone: Collection[int], controller_epoch: int
) -> LeaderAndIsr | None:
    """Returns what is left of a partition when the replicas in ``gone`` stop and nobody takes over.

    The last in-sync replica stays in the ISR, for only it may lead again without losing records.
    None if nothing changes.
    """
    leader = NO_LEADER if state.leader in gone else state.leader
    isr = tuple(replica for replica in state.isr if replica not in gone)
    if not isr:
        isr = (state.leader,) if state.leader in state.isr else state.isr[-1:]
    if leader == state.leader and isr == state.isr:
        return None
    if leader == state.leader:
        return with_isr(state, isr, controller_epoch, state.leader_recovery_state)
    return changed(state, leader, isr, controller_epoch)


def changed(
    state: LeaderAndIsr,
    leader: int,
    isr: tuple[int, ...],
    controller_epoch: int,
    leader_recovery_state: int | None = None,
) -> LeaderAndIsr:
    """Returns the partition's next state: its own epoch rises always, the leader's with the
    leadership.

    A leader that is elected again (its broker restarted) begins a new leadership too; only a change
    of the ISR under a sitting leader goes through ``with_isr``.
    """
    return LeaderAndIsr(
        state.topic,
        state.topic_id,
        state.partition,
        leader,
        state.leader_epoch + 1,
        isr,
        state.replicas,
        state.partition_epoch + 1,
        controller_epoch,
        state.leader_recovery_state if leader_recovery_state is None else leader_recovery_state,
        state.offline_replicas,
        state.adding_replicas,
        state.removing_replicas,
    )


def with_isr(
    state: LeaderAndIsr, isr: tuple[int, ...], controller_epoch: int, leader_recovery_state: int
) -> LeaderAndIsr:
    """Returns the same leadership with other in-sync replicas."""
    return msgspec.structs.replace(
        state,
        isr=isr,
        partition_epoch=state.partition_epoch + 1,
        controller_epoch=controller_epoch,
        leader_recovery_state=leader_recovery_state,
        is_new=False,
    )
