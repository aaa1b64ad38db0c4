"""A small world around one partition's in-sync replicas, explored state by state.

Three replicas, a controller, short logs. The leader's decisions are those of
``moldau.replication.isr``, the controller's those of ``moldau.controller``; everything around them
is as simple as it can be and as hostile as it may be. What is not decided by a rule happens in
every possible way:

- the controller's word reaches a broker late, or not at all, or a newer one overtakes it;
- a request to the controller is lost, delayed, or arrives twice; so is its answer;
- a replica is refused for a reason that passes, or that the next controller does not know (its
  broker is about to stop, its disk has failed);
- a fetch of an earlier life of a broker arrives in a later one;
- a follower counts as lagging whenever it does not have all that the leader has;
- a session expires under a broker that goes on (a long pause, a cut network);
- brokers restart: all that they had is there (a process was killed), or, for one broker at a time
  until it has caught up, part of the tail is gone (a power cut).

Time is nowhere: what depends on it may happen at any moment.

A fault is a rule left out, by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.support.partitions import TOPIC_ID
from tests.unit.replication.isr_world import (
    BROKERS,
    MIN_ISR,
    NOBODY,
    Broker,
    Decision,
    Fetch,
    Following,
    LateRequest,
    Leading,
    Log,
    Pending,
    World,
    by_id,
    common,
    frozen,
    is_clean,
    numbered,
    thawed,
)

from moldau.controller import AlterPartition, LeaderAndIsr
from moldau.controller.alter_partition import check_broker_epoch, decide
from moldau.controller.elections import renewed, revise
from moldau.errors import ErrorCode, KafkaError
from moldau.replication.isr import InSyncReplicas

NO_LAG = -1
"""Nobody is spared for having caught up a moment ago."""


class BrokenPromiseError(Exception):
    """A promise is broken; the name of the invariant."""


@dataclass(frozen=True)
class Rules:
    """What the world does right. Each fault makes one of them untrue."""

    pending_member_counts: bool = True
    positions_may_fall: bool = True
    replica_epoch_checked: bool = True
    min_isr_holds_back: bool = True
    shrink_awaits_answer: bool = True
    truncates_by_epoch: bool = True
    restart_noticed: bool = True
    last_member_stays: bool = True
    same_state_settles_nothing: bool = True
    epoch_start_required: bool = True
    eligible_leaders_kept: bool = True
    refusal_is_written: bool = True

    def without(self, name: str) -> Rules:
        return replace(self, **{name: False})


SOUND = Rules()


class Model:
    """The actions of a world under some rules."""

    def __init__(self, rules: Rules = SOUND) -> None:
        self._rules = rules

    def successors(self, world: World) -> Iterator[tuple[str, World]]:
        for number in BROKERS:
            broker = world.broker(number)
            if broker.is_up:
                yield from self._delivered(world, number, broker)
                if isinstance(broker.role, Leading):
                    yield from self._leads(world, number, broker, broker.role)
                elif isinstance(broker.role, Following):
                    yield from self._follows(world, number, broker, broker.role)
            yield from self._fails(world, number, broker)
            yield from self._noticed(world, number, broker)
        for fetch in world.late_fetches:
            after = world._replace(late_fetches=world.late_fetches - {fetch})
            yield f"late fetch of {fetch.follower}", self._fetch(after, fetch)[0]
        for request in world.late_requests:
            after = world._replace(late_requests=world.late_requests - {request})
            decided, _ = self._decide(after, request.change, request.sender_epoch)
            yield f"late request of {request.change.leader}", decided

    # The controller's word reaches a broker

    def _delivered(self, world: World, number: int, broker: Broker) -> Iterator[tuple[str, World]]:
        role = broker.role
        known = -1 if role is None else role.partition_epoch
        for decision in world.decisions:
            if decision.live[number - 1] != broker.epoch or decision.partition_epoch < known:
                continue
            if decision.partition_epoch > known:
                told = self._told(world, number, broker, decision)
                yield f"{number} is told {decision.partition_epoch}", told
            elif (
                isinstance(role, Leading)
                and role.pending is not None
                and not self._rules.same_state_settles_nothing
            ):
                leading = role._replace(pending=None, maximal=role.committed)
                request = LateRequest(role.pending, broker.epoch)
                late = world._replace(late_requests=world.late_requests | {request})
                yield (
                    f"{number} is told {known} again",
                    self._advanced(late, number, broker._replace(role=leading)),
                )
        live = world.decision.live
        if isinstance(role, Leading) and role.alive != live and live[number - 1] == broker.epoch:
            after = world.with_broker(number, broker._replace(role=role._replace(alive=live)))
            yield f"{number} learns who is alive", after

    def _told(self, world: World, number: int, broker: Broker, decision: Decision) -> World:
        role = broker.role
        if decision.leader != number:
            log, high_watermark = broker.log, broker.high_watermark
            is_new_epoch = role is None or decision.leader_epoch > role.leader_epoch
            if is_new_epoch and not self._rules.truncates_by_epoch:
                log = log[:high_watermark]
            following = Following(decision.leader, decision.leader_epoch, decision.partition_epoch)
            return world.with_broker(number, broker._replace(log=log, role=following))
        if isinstance(role, Leading) and role.leader_epoch == decision.leader_epoch:
            isr = thawed(number, role)
            isr.update(decision.partition_epoch, BROKERS, decision.isr, 0)
        else:
            isr = InSyncReplicas(
                number,
                decision.leader_epoch,
                decision.partition_epoch,
                BROKERS,
                decision.isr,
                len(broker.log),
                0,
            )
        leading = frozen(isr, decision.live)
        return self._advanced(world, number, broker._replace(role=leading))

    # What a leader does

    def _leads(
        self, world: World, number: int, broker: Broker, role: Leading
    ) -> Iterator[tuple[str, World]]:
        left = world.left
        if left.appends and len(role.committed) >= MIN_ISR:
            record = (role.leader_epoch, number, broker.epoch)
            appended = world._replace(left=left._replace(appends=left.appends - 1))
            longer = broker._replace(log=(*broker.log, record))
            yield f"{number} appends", self._advanced(appended, number, longer)
        if role.pending is None:
            isr = thawed(number, role)
            if left.changes and isr.shrink(len(broker.log), 0, NO_LAG) is not None:
                if not self._rules.shrink_awaits_answer:
                    assert isr.pending is not None
                    isr.maximal = isr.pending.isr
                spent = world._replace(left=left._replace(changes=left.changes - 1))
                leading = frozen(isr, role.alive)
                yield (
                    f"{number} wants to shrink to {isr.pending and isr.pending.isr}",
                    self._advanced(spent, number, broker._replace(role=leading)),
                )
        else:
            pending = role.pending
            decided, answer = self._decide(world, pending, broker.epoch)
            if decided != world:
                yield f"{number} asks, no answer", decided
            answered = self._answered(decided, number, answer)
            if answered != world:
                yield f"{number} asks for {pending.isr}", answered
            if left.refusals and pending.added and isinstance(answer, Decision):
                spent = world._replace(left=left._replace(refusals=left.refusals - 1))
                yield f"{number} is refused {pending.isr}", self._refused(spent, number, pending)

    def _refused(self, world: World, number: int, asked: Pending) -> World:
        """A replica may not join now; another copy of the request may be on its way."""
        if self._rules.refusal_is_written:
            current = world.decision
            again = current.changed(renewed(current.state, current.circumstances))
            return self._answered(_decided(world, again), number, ErrorCode.INELIGIBLE_REPLICA)
        broker = world.broker(number)
        role = broker.role
        assert isinstance(role, Leading)
        request = LateRequest(asked, broker.epoch)
        late = world._replace(late_requests=world.late_requests | {request})
        leading = role._replace(pending=None, maximal=role.committed)
        return self._advanced(late, number, broker._replace(role=leading))

    def _answered(self, world: World, number: int, answer: Decision | ErrorCode) -> World:
        broker = world.broker(number)
        role = broker.role
        assert isinstance(role, Leading)
        isr = thawed(number, role)
        change = isr.pending
        assert change is not None
        if isinstance(answer, Decision):
            isr.accepted(change, answer.leader_epoch, answer.partition_epoch, answer.isr)
        else:
            isr.refused(change, answer, 0)
        return self._advanced(world, number, broker._replace(role=frozen(isr, role.alive)))

    def _advanced(self, world: World, number: int, broker: Broker) -> World:
        """The world with this leader, whose high watermark is where it may be now."""
        role = broker.role
        assert isinstance(role, Leading)
        isr = thawed(number, role)
        if not self._rules.pending_member_counts:
            isr.maximal = tuple([one for one in role.maximal if one in role.committed])
        high_watermark = broker.high_watermark
        if len(role.committed) >= MIN_ISR or not self._rules.min_isr_holds_back:
            end = len(broker.log)
            high_watermark = max(
                high_watermark, isr.replicated_end(end, end, 0, NO_LAG, by_id(role.alive))
            )
        seen = broker.log[:high_watermark]
        if high_watermark > broker.high_watermark:
            broker = broker._replace(high_watermark=high_watermark)
            world = world.with_broker(number, broker)
            # One that has just lost it had it: its fetch, which counts here, was sent before.
            holders = [
                other
                for other, one in numbered(world)
                if other == world.cut or one.log[:high_watermark] == seen
            ]
            if len(holders) < MIN_ISR:
                raise BrokenPromiseError("acknowledged_by_min_isr")
        if len(seen) > len(world.visible):
            if seen[: len(world.visible)] != world.visible:
                raise BrokenPromiseError("visible_records_stay")
            world = world._replace(visible=seen)
        elif world.visible[: len(seen)] != seen:
            raise BrokenPromiseError("visible_records_stay")
        return world.with_broker(number, broker)

    # What a follower does

    def _follows(
        self, world: World, number: int, broker: Broker, role: Following
    ) -> Iterator[tuple[str, World]]:
        if role.leader == NOBODY:
            return
        fetch = Fetch(number, broker.epoch, role.leader, role.leader_epoch, len(broker.log))
        after, reached = self._fetch(world, fetch)
        if not reached:
            return
        if after != world:
            yield f"{number} fetches, no answer", after
        leader = after.broker(role.leader)
        agreed = common(broker.log, leader.log)
        log = leader.log if agreed == len(broker.log) else broker.log[:agreed]
        high_watermark = min(leader.high_watermark, len(log))
        if log != broker.log or high_watermark != broker.high_watermark:
            high_watermark = max(high_watermark, min(broker.high_watermark, len(log)))
            copy = broker._replace(log=log, high_watermark=high_watermark)
            yield f"{number} fetches", after.with_broker(number, copy)

    def _fetch(self, world: World, fetch: Fetch) -> tuple[World, bool]:
        """Returns the world after a fetch has reached the leader, and whether it was answered."""
        leader = world.broker(fetch.leader)
        role = leader.role
        if not (
            leader.is_up and isinstance(role, Leading) and role.leader_epoch == fetch.leader_epoch
        ):
            return world, False
        sender = world.broker(fetch.follower)
        if sender.epoch == fetch.broker_epoch:
            log = sender.log[: fetch.offset]
            if common(log, leader.log) < len(log):
                return world, True  # it diverges, and is told so
        if fetch.offset > len(leader.log):
            return world, False
        isr = thawed(fetch.leader, role)
        alive = by_id(role.alive)
        offset, broker_epoch = fetch.offset, fetch.broker_epoch
        follower = isr.followers[fetch.follower]
        if not self._rules.positions_may_fall:
            offset = max(offset, follower.log_end)
        if not self._rules.replica_epoch_checked:
            broker_epoch = max(alive.get(fetch.follower, -1), follower.broker_epoch, broker_epoch)
        if not self._rules.epoch_start_required:
            isr.epoch_start = 0
        try:
            isr.fetched(fetch.follower, broker_epoch, offset, 0, len(leader.log), 0, alive)
        except KafkaError:
            return world, False
        changes = world.left.changes
        if changes and isr.expand(fetch.follower, leader.high_watermark, 0, alive) is not None:
            world = world._replace(left=world.left._replace(changes=changes - 1))
        leader = leader._replace(role=frozen(isr, role.alive))
        return self._advanced(world, fetch.leader, leader), True

    # What fails

    def _fails(self, world: World, number: int, broker: Broker) -> Iterator[tuple[str, World]]:
        left = world.left
        if not broker.is_up:
            epoch = broker.epoch + 1
            intact_since = epoch if number == world.cut else broker.intact_since
            restarted = broker._replace(epoch=epoch, intact_since=intact_since, is_up=True)
            yield f"{number} starts", world.with_broker(number, restarted)
            return
        if left.kills:
            spent = world._replace(left=left._replace(kills=left.kills - 1))
            yield f"{number} is killed", _down(spent, number, broker.log)
        if left.cuts and world.cut == 0:
            spent = world._replace(left=left._replace(cuts=left.cuts - 1), cut=number)
            for kept in range(len(broker.log)):
                cut = _down(spent, number, broker.log[:kept])
                yield f"{number} loses power, and what is after {kept}", cut
        if left.expiries and world.decision.live[number - 1] == broker.epoch:
            spent = world._replace(left=left._replace(expiries=left.expiries - 1))
            renewed = broker._replace(epoch=broker.epoch + 1)
            yield f"the session of {number} expires", spent.with_broker(number, renewed)

    # What the controller does

    def _noticed(self, world: World, number: int, broker: Broker) -> Iterator[tuple[str, World]]:
        decision = world.decision
        known = decision.live[number - 1]
        if known and (known != broker.epoch or not broker.is_up):
            gone = self._revised(decision.knowing(number, 0, 0))
            yield f"the controller misses {number}", _decided(world, gone)
        if broker.is_up and known != broker.epoch:
            there = decision.knowing(number, broker.epoch, broker.intact_since)
            if known and not self._rules.restart_noticed:
                epochs = zip(decision.eligible, decision.broker_epochs, strict=True)
                there = there._replace(
                    broker_epochs=tuple(
                        [broker.epoch if one == number else epoch for one, epoch in epochs]
                    )
                )
            else:
                there = self._revised(there)
            yield f"the controller sees {number}", _decided(world, there)

    def _revised(self, decision: Decision) -> Decision:
        live = decision.live_replicas
        if not self._rules.last_member_stays and not set(live) & set(decision.eligible):
            epochs = tuple([decision.live[number - 1] for number in live])
            decision = decision._replace(isr=tuple(live), elr=(), broker_epochs=epochs)
        state = revise(decision.state, live, decision.circumstances)
        return decision if state is None else self._changed(decision, state)

    def _changed(self, decision: Decision, state: LeaderAndIsr) -> Decision:
        changed = decision.changed(state)
        if not self._rules.eligible_leaders_kept:
            epochs = changed.broker_epochs[: len(changed.isr)]
            changed = changed._replace(elr=(), broker_epochs=epochs)
        return changed

    def _decide(
        self, world: World, request: Pending, sender_epoch: int
    ) -> tuple[World, Decision | ErrorCode]:
        """The controller's answer to a request for other in-sync replicas."""
        current, sender = world.decision, request.leader
        now = current.circumstances
        stale = check_broker_epoch(now.brokers, sender, sender_epoch)
        if stale is not ErrorCode.NONE:
            return world, stale
        epochs = request.isr_epochs
        if not self._rules.replica_epoch_checked:
            epochs = tuple([current.live[number - 1] or -1 for number in request.isr])
        wanted = AlterPartition(
            topic="t",
            topic_id=TOPIC_ID,
            partition=0,
            leader_epoch=request.leader_epoch,
            partition_epoch=request.partition_epoch,
            new_isr=request.isr,
            new_isr_epochs=epochs,
        )
        state = current.state
        answer = decide(state, wanted, sender, current.live_replicas, now)
        if answer is ErrorCode.INELIGIBLE_REPLICA:
            return _decided(world, current.changed(renewed(state, now))), answer
        if isinstance(answer, ErrorCode):
            return world, answer
        if answer is state:
            return world, current
        leader = world.broker(sender)
        seen = leader.log[: leader.high_watermark]
        for added in request.added:
            if is_clean(world, added) and world.broker(added).log[: len(seen)] != seen:
                raise BrokenPromiseError("isr_has_caught_up")
        decision = self._changed(current, answer)
        return _decided(world, decision), decision


def _down(world: World, number: int, log: Log) -> World:
    """The broker is gone; what it had sent may still arrive."""
    broker = world.broker(number)
    role = broker.role
    if isinstance(role, Following) and role.leader != NOBODY:
        fetch = Fetch(number, broker.epoch, role.leader, role.leader_epoch, len(broker.log))
        world = world._replace(late_fetches=world.late_fetches | {fetch})
    elif isinstance(role, Leading) and role.pending is not None:
        request = LateRequest(role.pending, broker.epoch)
        world = world._replace(late_requests=world.late_requests | {request})
    down = Broker(broker.epoch, broker.intact_since, False, log, 0, None)
    return world.with_broker(number, down)


def _decided(world: World, decision: Decision) -> World:
    """The world after a decision; the last one says also who is alive since."""
    if decision.partition_epoch == world.decision.partition_epoch:
        decisions = (*world.decisions[:-1], decision)
    else:
        decisions = (*world.decisions, decision)
    return world._replace(decisions=decisions)
