"""Who may lead: single decisions, then lives of a partition in which nothing may be lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest

from moldau.controller.alter_partition import decide
from moldau.controller.elections import (
    Circumstances,
    _Members,
    elect_for_shutdown,
    elect_preferred,
    revise,
)
from moldau.controller.link import NO_LEADER, LeaderAndIsr
from moldau.controller.requests import AlterPartition
from moldau.coordination.znodes import RECOVERED, RECOVERING, BrokerRegistration

EPOCH = 100
"""Of every broker's first life; its second one begins with 200."""


def brokers(
    up: Collection[int], restarted: Collection[int] = (), lost: Collection[int] = ()
) -> dict[int, BrokerRegistration]:
    """Those that are up; some in their second life, some of these with losses."""
    return {
        broker: BrokerRegistration(
            broker,
            (),
            None,
            EPOCH * (2 if broker in (*restarted, *lost) else 1),
            EPOCH * (2 if broker in lost else 1),
        )
        for broker in up
    }


def now(up: dict[int, BrokerRegistration], min_isr: int = 1) -> Circumstances:
    return Circumstances(up, 7, lambda _topic, _leader: min_isr)


def state(
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    recovery: int = RECOVERED,
    elr: tuple[int, ...] = (),
    last_known_leader: int = NO_LEADER,
) -> LeaderAndIsr:
    return LeaderAndIsr(
        "t",
        UUID(int=1),
        0,
        leader,
        5,
        isr,
        replicas,
        9,
        1,
        recovery,
        is_new=True,
        elr=elr,
        last_known_leader=last_known_leader,
        broker_epochs=(EPOCH,) * (len(isr) + len(elr)),
    )


def revised(
    before: LeaderAndIsr,
    up: Collection[int],
    *,
    restarted: Collection[int] = (),
    lost: Collection[int] = (),
    min_isr: int = 1,
    unclean: bool = False,
) -> LeaderAndIsr | None:
    there = brokers(up, restarted, lost)
    live = [replica for replica in before.replicas if replica in there]
    return revise(before, live, now(there, min_isr), unclean=unclean)


def roles(new: LeaderAndIsr | None) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    return None if new is None else (new.leader, new.isr, new.elr)


def test_nothing_changes_while_everybody_is_there() -> None:
    assert revised(state(), (1, 2, 3)) is None
    assert revised(state(isr=(1,), elr=(2,)), (1, 2, 3), min_isr=2) is None
    assert revised(state(leader=NO_LEADER, isr=(1,)), (2, 3)) is None


@pytest.mark.parametrize(
    ("isr", "up", "unclean", "leader"),
    [
        ((1, 2), (2, 3), False, 2),
        ((3, 2, 1), (2, 3), False, 2),
        ((1,), (2, 3), False, NO_LEADER),
        ((1,), (2, 3), True, 2),
        ((1,), (), True, NO_LEADER),
        ((1, 3), (2, 3), True, 3),
    ],
)
def test_the_first_live_in_sync_replica_of_the_assignment_leads(
    isr: tuple[int, ...], up: tuple[int, ...], unclean: bool, leader: int
) -> None:
    new = revised(state(isr=isr), up, unclean=unclean)
    assert new is not None
    assert new.leader == leader


def test_a_new_leadership_raises_both_epochs_and_shrinks_the_isr_to_the_living() -> None:
    new = revised(state(), (2, 3))
    assert new is not None
    assert roles(new) == (2, (2, 3), ())
    assert (new.leader_epoch, new.partition_epoch, new.controller_epoch) == (6, 10, 7)
    assert new.replicas == (1, 2, 3)
    assert not new.is_new


def test_an_unclean_leader_stands_alone_and_has_to_recover() -> None:
    new = revised(state(isr=(1,), elr=()), (2, 3), unclean=True, min_isr=2)
    assert new is not None
    assert roles(new) == (2, (2,), ())
    assert new.leader_recovery_state == RECOVERING


def test_a_clean_election_keeps_the_recovery_state() -> None:
    new = revised(state(isr=(1, 2), recovery=RECOVERING), (2,), unclean=True)
    assert new is not None
    assert new.leader_recovery_state == RECOVERING


def test_a_restarted_broker_gives_way_to_another_in_sync_replica() -> None:
    assert roles(revised(state(), (1, 2, 3), restarted=(1,))) == (2, (2, 3), ())
    assert roles(revised(state(), (1, 2, 3), restarted=(3,))) == (1, (1, 2), ())


def test_a_restarted_broker_leads_again_if_it_is_the_only_one_in_sync() -> None:
    alone = state(isr=(1,), replicas=(1,))
    for lost in ((), (1,)):
        new = revised(alone, (1,), restarted=(1,), lost=lost)
        assert new is not None
        assert (roles(new), new.leader_epoch) == ((1, (1,), ()), 6)
        assert new.leader_recovery_state == RECOVERED
        assert new.broker_epochs == (2 * EPOCH,)


def test_a_restarted_in_sync_replica_is_better_than_an_unclean_one() -> None:
    new = revised(state(isr=(1,)), (1, 2, 3), unclean=True, restarted=(1,))
    assert roles(new) == (1, (1,), ())


def test_of_all_restarted_the_first_that_lost_nothing_leads() -> None:
    everybody = (1, 2, 3)
    new = revised(state(), everybody, restarted=everybody, lost=(1,), min_isr=2)
    assert roles(new) == (2, (2,), (3,))


def test_losing_a_follower_keeps_the_leadership() -> None:
    new = revised(state(), (1, 2))
    assert new is not None
    assert roles(new) == (1, (1, 2), ())
    assert (new.leader_epoch, new.partition_epoch, new.controller_epoch) == (5, 10, 7)


def test_who_leaves_when_too_few_stay_could_still_lead() -> None:
    alone = revised(state(isr=(1, 2)), (1, 3), min_isr=2)
    assert roles(alone) == (1, (1,), (2,))
    assert alone is not None
    assert roles(revised(alone, (2, 3), min_isr=2)) == (2, (2,), (1,))
    assert roles(revised(alone, (2, 3), restarted=(2,), min_isr=2)) == (2, (2,), (1,))
    assert roles(revised(alone, (1, 2, 3), lost=(2,), min_isr=2)) == (1, (1,), ())
    assert roles(revised(alone, (2, 3), lost=(2,), min_isr=2)) == (NO_LEADER, (1,), ())


def test_nobody_is_eligible_beside_enough_in_sync_replicas() -> None:
    assert roles(revised(state(isr=(1, 2), elr=(3,)), (1, 2, 3), min_isr=2)) == (1, (1, 2), ())


def test_when_all_are_gone_any_of_them_may_lead_that_comes_back_with_everything() -> None:
    gone = revised(state(isr=(2, 1)), ())
    assert gone is not None
    assert (roles(gone), gone.last_known_leader) == ((NO_LEADER, (2, 1), ()), 1)
    assert gone.leader_epoch == 6
    assert gone.broker_epochs == (EPOCH, EPOCH)
    back = revised(gone, (2, 3), restarted=(2,))
    assert back is not None
    assert (roles(back), back.last_known_leader) == ((2, (2,), ()), NO_LEADER)
    waiting = revised(gone, (2, 3), lost=(2,))
    assert waiting is not None
    assert (roles(waiting), waiting.leader_epoch) == ((NO_LEADER, (1,), ()), 6)


def test_whoever_led_last_leads_when_all_came_back_with_losses() -> None:
    gone = revised(state(leader=2, isr=(1, 2, 3)), ())
    assert gone is not None
    some = revised(gone, (1, 2), lost=(1, 2))
    assert some is not None
    assert (roles(some), some.last_known_leader) == ((NO_LEADER, (3,), ()), 2)
    assert roles(revised(some, (1, 2, 3), lost=(1, 2, 3))) == (2, (2,), ())
    without_it = revised(some, (1, 3), lost=(1, 3))
    assert without_it is not None
    assert (roles(without_it), without_it.last_known_leader) == ((NO_LEADER, (2,), ()), 2)
    assert roles(revised(without_it, (1, 2, 3), lost=(1, 2, 3))) == (2, (2,), ())


def test_the_preferred_election_keeps_the_isr() -> None:
    there = brokers((1, 2, 3))
    new = elect_preferred(state(leader=2, isr=(2, 1)), [1, 2, 3], now(there))
    assert new is not None
    assert (new.leader, new.isr, new.leader_epoch) == (1, (2, 1), 6)
    assert elect_preferred(state(leader=2, isr=(2,)), [1, 2], now(there)) is None
    assert elect_preferred(state(leader=2, isr=(2, 1)), [2], now(brokers((2,)))) is None


def test_a_shutdown_takes_the_leaving_broker_out_of_the_isr() -> None:
    there = now(brokers((1, 2, 3)), min_isr=2)
    assert roles(elect_for_shutdown(state(), [1, 2, 3], 1, there)) == (2, (2, 3), ())
    assert roles(elect_for_shutdown(state(), [1, 2, 3], 3, there)) == (1, (1, 2), ())
    assert roles(elect_for_shutdown(state(isr=(1, 2)), [1, 2, 3], 1, there)) == (2, (2,), (1,))
    assert elect_for_shutdown(state(isr=(1,)), [1, 2, 3], 1, there) is None
    assert elect_for_shutdown(state(isr=(1, 2)), [1, 2, 3], 3, there) is None


# Lives ------------------------------------------------------------------------------------------


@dataclass
class Replica:
    """A broker's replica: the records it holds, and those a power cut leaves it with."""

    records: set[int] = field(default_factory=set)
    synced: set[int] = field(default_factory=set)
    is_up: bool = True
    epoch: int = 0
    intact_since: int = 0


class Partition:
    """One partition through kills, power cuts, restarts, syncs, shrinks and growths of its ISR.

    A record is acknowledged when every in-sync replica has it, if those are enough. The controller
    may notice things late.
    """

    def __init__(self, seed: int, min_isr: int) -> None:
        self.random = Random(seed)
        self.min_isr = min_isr
        self.next_epoch = 1
        self.replicas = {broker: Replica(epoch=broker, intact_since=broker) for broker in (1, 2, 3)}
        self.zxid = 10
        self.acknowledged: set[int] = set()
        self.damaged: set[int] = set()
        """Those that a power cut may have taken something from, until they are in sync again."""
        self.state = LeaderAndIsr(
            "t", UUID(int=1), 0, 1, 0, (1, 2, 3), (1, 2, 3), 0, 1, broker_epochs=(1, 2, 3)
        )

    @property
    def up(self) -> list[int]:
        return [broker for broker, replica in self.replicas.items() if replica.is_up]

    def circumstances(self) -> Circumstances:
        there = {
            broker: BrokerRegistration(
                broker, (), None, self.replicas[broker].epoch, self.replicas[broker].intact_since
            )
            for broker in self.up
        }
        return Circumstances(there, 1, lambda _topic, _leader: self.min_isr)

    def leads(self) -> bool:
        """Whether there is a leader, in the life in which it was elected."""
        state = self.state
        if state.leader not in self.up:
            return False
        epochs = dict(zip((*state.isr, *state.elr), state.broker_epochs, strict=True))
        return epochs[state.leader] == self.replicas[state.leader].epoch

    # What happens

    def notice(self) -> None:
        """The controller looks."""
        before = self.state
        new = revise(before, self.up, self.circumstances())
        if new is None:
            return
        assert new.isr
        assert new.partition_epoch == before.partition_epoch + 1
        self.state = new
        if new.leader != NO_LEADER and new.leader_epoch > before.leader_epoch:
            leader = self.replicas[new.leader]
            assert self.acknowledged <= leader.records, "lost"
            for broker in new.isr:  # what followers have and the leader does not is cut off
                self.replicas[broker].records &= leader.records
                self.replicas[broker].synced &= leader.records

    def append(self) -> None:
        state = self.state
        if not self.leads() or len(state.isr) < self.min_isr:
            return
        record = len(self.acknowledged) * 1000 + self.random.randrange(1000)
        self.replicas[state.leader].records.add(record)
        live = [broker for broker in state.isr if self.is_same_life(broker)]
        for broker in live:
            self.replicas[broker].records.add(record)
        if len(live) == len(state.isr):
            self.acknowledged.add(record)

    def is_same_life(self, broker: int) -> bool:
        epochs = dict(zip(self.state.isr, self.state.broker_epochs, strict=False))
        replica = self.replicas[broker]
        return replica.is_up and epochs.get(broker) == replica.epoch

    def sync(self) -> None:
        replica = self.replicas[self.random.choice((1, 2, 3))]
        if replica.is_up:
            replica.synced = set(replica.records)

    def catch_up(self) -> None:
        """A follower has all that the leader has, and is taken into the ISR, or is in it."""
        state = self.state
        followers = [broker for broker in self.up if broker != state.leader]
        if not self.leads() or not followers:
            return
        broker = self.random.choice(followers)
        follower, leader = self.replicas[broker], self.replicas[state.leader]
        follower.records = set(leader.records)
        follower.synced &= follower.records
        if broker not in state.isr and self.alter((*state.isr, broker)):
            self.damaged.discard(broker)

    def shrink(self) -> None:
        state = self.state
        others = [broker for broker in state.isr if broker != state.leader]
        if self.leads() and others:
            slow = self.random.choice(others)
            self.alter(tuple(broker for broker in state.isr if broker != slow))

    def alter(self, isr: tuple[int, ...]) -> bool:
        """The leader asks the controller; returns whether it may."""
        request = AlterPartition(
            topic="t",
            topic_id=self.state.topic_id,
            partition=0,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            new_isr=isr,
            new_isr_epochs=tuple(self.replicas[broker].epoch for broker in isr),
        )
        answer = decide(self.state, request, self.state.leader, self.up, self.circumstances())
        if isinstance(answer, LeaderAndIsr):
            self.state = answer
        return isinstance(answer, LeaderAndIsr)

    def kill(self) -> None:
        if self.up:
            self.replicas[self.random.choice(self.up)].is_up = False

    def power_cut(self) -> None:
        """Of one at a time; the next only when it has caught up."""
        if self.damaged:
            return
        broker = self.random.choice((1, 2, 3))
        replica = self.replicas[broker]
        replica.is_up = False
        replica.records = set(replica.synced)
        replica.intact_since = -1
        self.damaged.add(broker)

    def start(self) -> None:
        down = [broker for broker in (1, 2, 3) if not self.replicas[broker].is_up]
        if down:
            replica = self.replicas[self.random.choice(down)]
            self.zxid += 1
            replica.is_up, replica.epoch = True, self.zxid
            if replica.intact_since == -1:
                replica.intact_since = self.zxid

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice(
                [
                    self.notice,
                    self.notice,
                    self.append,
                    self.append,
                    self.sync,
                    self.catch_up,
                    self.catch_up,
                    self.shrink,
                    self.kill,
                    self.power_cut,
                    self.start,
                    self.start,
                ]
            )()
        for _ in range(3):
            self.start()
        self.notice()
        assert self.state.leader != NO_LEADER, "all are back"
        assert self.acknowledged <= self.replicas[self.state.leader].records


def _live(seeds: Iterable[int], min_isr: int) -> None:
    for seed in seeds:
        Partition(seed, min_isr).run(60)


@pytest.mark.parametrize("min_isr", [2, 3])
def test_nothing_acknowledged_is_lost_to_kills_and_single_power_cuts(min_isr: int) -> None:
    _live(range(1_500), min_isr)


def _restarts_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Members, "is_steady", lambda members, one: one in members._live)


def _losses_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Members, "has_lost", lambda _members, _one: False)


def _eligible_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def eligible(members: _Members, _leader: int, isr: Collection[int]) -> tuple[int, ...]:
        return tuple(one for one in members._eligible if one not in isr)

    monkeypatch.setattr(_Members, "eligible_beside", eligible)


@pytest.mark.parametrize(
    "plant", [_restarts_not_noticed, _losses_ignored, _eligible_for_ever], ids=lambda f: f.__name__
)
def test_what_is_lost_without_each_of_the_rules(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="lost"):
        _live(range(500), min_isr=2)
