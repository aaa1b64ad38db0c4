"""Consumers that behave as the Java client does, and a churn that makes their life hard.

Members come and go, crash, fall asleep, keep their heartbeat but do not rejoin, change what they
support; the coordinator restarts and its appends fail. All that time no partition may have two
owners in one generation, and generations rise. When the churn stops the group becomes stable with
exactly those who are left, and a coordinator that reads the log knows the same group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tests.unit.groups.classic.harness import GROUP, SESSION_MS, Broker

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroupState as State
from moldau.groups.settings import GroupSettings

PARTITIONS = 6
TICK_MS = 500
HEARTBEAT_MS = 3000
REBALANCE_MS = 20_000
SETTLE_MS = 4 * (REBALANCE_MS + SESSION_MS)
PROTOCOLS = (("range", b"r"), ("sticky", b"s"))

Owners = dict[int, str]
RETRY = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


class Phase(Enum):
    OUT = auto()
    JOINING = auto()
    SYNCING = auto()
    IN = auto()


@dataclass(eq=False)
class Consumer:
    """One process. ``asleep``: it does nothing; ``busy``: it sends heartbeats but never rejoins."""

    broker: Broker
    history: dict[int, Owners]
    instance_id: str | None = None
    version: int = 9
    protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS
    member_id: str = ""
    generation: int = -1
    phase: Phase = Phase.OUT
    token: int = 0
    partitions: frozenset[int] = frozenset()
    next_heartbeat_ms: int = 0
    asleep: bool = False
    busy: bool = False
    stopped: bool = False

    @property
    def name(self) -> str:
        """Who owns a partition: a static member keeps it under another member id."""
        return self.instance_id or self.member_id

    @property
    def may_join(self) -> bool:
        return self.phase is Phase.OUT and not self.stopped and not self.busy

    def tick(self) -> None:
        if self.asleep or self.stopped:
            return
        if self.phase in (Phase.JOINING, Phase.SYNCING):
            answer = self.broker.answers.get(self.token)
            if answer is not None:
                handle = self._joined if self.phase is Phase.JOINING else self._synced
                self.phase = Phase.OUT
                handle(answer)
        elif self.phase is Phase.IN and self.broker.now_ms >= self.next_heartbeat_ms:
            self._heartbeat()
        if self.may_join:
            self._join()

    def _join(self) -> None:
        self.partitions = frozenset()
        self.phase = Phase.JOINING
        self.token = self.broker.join(
            self.member_id,
            instance_id=self.instance_id,
            protocols=self.protocols,
            rebalance_ms=REBALANCE_MS,
            version=self.version,
        )

    def _joined(self, answer: Any) -> None:
        error = answer.error_code
        if error is ErrorCode.NONE:
            self.member_id = answer.member_id
            self.generation = answer.generation_id
            leads = answer.leader == self.member_id and not answer.skip_assignment
            members = sorted(member.member_id for member in answer.members)
            assert bool(members) == (answer.leader == self.member_id)
            self.phase = Phase.SYNCING
            self.token = self.broker.sync(
                self.member_id,
                self.generation,
                divide(members) if leads else {},
                instance_id=self.instance_id,
                protocol=answer.protocol_name,
            )
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        else:
            self._failed(error)

    def _synced(self, answer: Any) -> None:
        if answer.error_code is not ErrorCode.NONE:
            self._failed(answer.error_code)
            return
        self.phase = Phase.IN
        self.partitions = frozenset(answer.assignment)
        self.next_heartbeat_ms = self.broker.now_ms + HEARTBEAT_MS
        owners = self.history.setdefault(self.generation, {})
        for partition in self.partitions:
            owner = owners.setdefault(partition, self.name)
            assert owner == self.name, f"{partition} has two owners in {self.generation}"

    def _heartbeat(self) -> None:
        self.next_heartbeat_ms = self.broker.now_ms + HEARTBEAT_MS
        error = self.broker.heartbeat(self.member_id, self.generation, instance_id=self.instance_id)
        if error is not ErrorCode.NONE and not (
            self.busy and error is ErrorCode.REBALANCE_IN_PROGRESS
        ):
            self.phase = Phase.OUT
            self._failed(error)

    def _failed(self, error: ErrorCode) -> None:
        self.partitions = frozenset()
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            self.stopped = True
        else:
            assert error in RETRY or error is ErrorCode.ILLEGAL_GENERATION, error


def divide(members: list[str]) -> dict[str, bytes]:
    """Partitions in turn; a part is the bytes of the partition numbers."""
    return {
        member: bytes(range(first, PARTITIONS, len(members)))
        for first, member in enumerate(members)
    }


class Churn:
    """A group and its consumers. Each kind of trouble is a method of ``TROUBLES``."""

    def __init__(self, max_size: int = 100, delay_ms: int = 3000) -> None:
        self.broker = Broker(
            GroupSettings(group_max_size=max_size, group_initial_rebalance_delay_ms=delay_ms)
        )
        self.history: dict[int, Owners] = {}
        self.consumers: list[Consumer] = []
        self.generation = 0

    def run(self, steps: Iterable[tuple[str, int, int]]) -> None:
        """Steps are a trouble, a number that chooses its victim, and ticks that pass after it."""
        for trouble, number, ticks in steps:
            victim = self.consumers[number % len(self.consumers)] if self.consumers else None
            if victim is not None:
                getattr(self, trouble)(victim, number)
            else:
                self.start(None, number)
            self.time_passes(ticks)
        self.broker.fail_with = None
        for consumer in self.consumers:
            consumer.asleep = consumer.busy = False
        self.time_passes(SETTLE_MS // TICK_MS)
        self.check_settled()
        self.check_takeover()

    def time_passes(self, ticks: int) -> None:
        for _ in range(ticks):
            self.broker.advance(TICK_MS)
            for consumer in self.consumers:
                consumer.tick()
            self.check_group()

    # -- troubles --------------------------------------------------------------------------------

    def start(self, _: object, number: int) -> None:
        version = (3, 8, 9)[number % 3]
        self.consumers.append(Consumer(self.broker, self.history, version=version))

    def start_static(self, _: Consumer, number: int) -> None:
        """Perhaps again after a crash, perhaps while the first one still runs."""
        name, version = f"static-{number % 3}", (8, 9)[number % 2]
        self.consumers.append(
            Consumer(self.broker, self.history, instance_id=name, version=version)
        )

    def crash(self, victim: Consumer, _: int) -> None:
        self.consumers.remove(victim)

    def crash_and_come_back(self, victim: Consumer, _: int) -> None:
        self.consumers.remove(victim)
        self.consumers.append(
            Consumer(
                self.broker, self.history, instance_id=victim.instance_id, version=victim.version
            )
        )

    def leave(self, victim: Consumer, _: int) -> None:
        self.consumers.remove(victim)
        if victim.member_id:
            self.broker.leave((victim.member_id, victim.instance_id))

    def remove_by_name(self, victim: Consumer, _: int) -> None:
        self.broker.leave(("", victim.instance_id))

    def fall_asleep_or_wake(self, victim: Consumer, _: int) -> None:
        victim.asleep = not victim.asleep

    def work_too_long_or_finish(self, victim: Consumer, _: int) -> None:
        victim.busy = not victim.busy

    def change_subscription(self, victim: Consumer, number: int) -> None:
        metadata = bytes([number])
        victim.protocols = (("range", metadata), ("sticky", metadata))
        self.rejoin(victim, number)

    def rejoin(self, victim: Consumer, _: int) -> None:
        if victim.phase is Phase.IN:
            victim.phase = Phase.OUT

    def break_or_mend_the_log(self, _: Consumer, number: int) -> None:
        errors = (None, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.broker.fail_with = errors[number % len(errors)]

    def restart_the_coordinator(self, _: Consumer, __: int) -> None:
        self.broker.fail_with = None
        self.broker.restart()
        # Generations that were not stored are lost; nobody was given an assignment of them.
        self.generation = 0

    # -- what must hold ----------------------------------------------------------------------------

    def check_group(self) -> None:
        group = self.broker.groups.get(GROUP)
        if group is None:
            assert not self.generation
            return
        assert group.generation >= self.generation
        self.generation = group.generation
        assert (group.state is State.EMPTY) <= (not group.members)
        assert group.awaiting_join == {
            m.member_id for m in group.members.values() if m.parked_join is not None
        }
        assert group.pending_sync <= group.members.keys()
        assert not group.pending_join & group.members.keys()
        assert group.leader is None or group.leader in group.members
        if group.state is not State.COMPLETING_REBALANCE:
            assert all(m.parked_sync is None for m in group.members.values())
        if group.state is not State.PREPARING_REBALANCE:
            assert not group.awaiting_join

    def check_settled(self) -> None:
        """The churn is over: whoever runs is in, owns its part, and nothing waits."""
        assert len(self.broker.answers) == self.broker.requests
        alive = [consumer for consumer in self.consumers if not consumer.stopped]
        group = self.broker.groups.get(GROUP)
        if not alive:
            assert group is None or group.state is State.EMPTY
            assert len(self.broker.timeouts) == 0
            return
        assert group is not None
        assert group.state is State.STABLE
        assert sorted(group.members) == sorted(consumer.member_id for consumer in alive)
        assert {consumer.phase for consumer in alive} == {Phase.IN}
        assert {consumer.generation for consumer in alive} == {group.generation}
        owned = sorted(partition for consumer in alive for partition in consumer.partitions)
        assert owned == list(range(PARTITIONS))

    def check_takeover(self) -> None:
        """Another coordinator reads the log: same group, and members that notice nothing."""
        before = self.broker.groups.describe(GROUP)
        if before is None or not before.members:
            return
        self.broker.restart()
        assert self.broker.groups.describe(GROUP) == before
        assert self.broker.group.generation == self.generation
        for consumer in self.consumers:
            if not consumer.stopped:
                error = self.broker.heartbeat(
                    consumer.member_id, consumer.generation, instance_id=consumer.instance_id
                )
                assert error is ErrorCode.NONE


TROUBLES = [
    "start",
    "start_static",
    "crash",
    "crash_and_come_back",
    "leave",
    "remove_by_name",
    "fall_asleep_or_wake",
    "work_too_long_or_finish",
    "change_subscription",
    "rejoin",
    "break_or_mend_the_log",
    "restart_the_coordinator",
]
TICKS = [0, 0, 1, 2, 4, 8, 16, 30, 60]
"""Up to a rebalance timeout and then some."""
