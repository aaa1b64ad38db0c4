"""Many members and many groups: from the first join to all of them stable, beside Apache Kafka.

Members speak the classic protocol by themselves, each on a connection of its own: join until the
member id is accepted, the leader gives everybody a share, and whoever is told that the group
rebalances joins again. Both brokers run with their default ``group.initial.rebalance.delay.ms``.
The first round is the cold one; the broker is warm when its CPU time is steady.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment

from bench.figures import Runs
from bench.processes import cpu_seconds, resident_mb
from bench.report import Goal, Row, Table, compare
from bench.session import Session
from bench.targets import Target, brokers
from bench.warming import warm
from moldau.errors import ErrorCode
from moldau.machine.real import this_machine
from moldau.net.broker_connection import BrokerConnection
from moldau.wire.api import ApiKey
from moldau.wire.make import make
from moldau.wire.primitives import error_from

REBALANCE = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
LIMIT_S = 300
MACHINE = this_machine()
RETRY_S = 0.05
CONNECTING_AT_ONCE = 100

# A subscription of version 0 to the topic "t": Kafka reads it.
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"

# Kafka's defaults; the launcher of the tests makes them smaller.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "3000",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "1",
}

NO_SLOWER = Goal(at_most_ratio=1)
FOURTH = Goal(at_most_ratio=1 / 4)


class Scale(NamedTuple):
    members: int
    groups: int
    rounds: int
    warming_s: float


FULL = Scale(1000, 2000, 3, 40)
QUICK = Scale(10, 10, 1, 0)

_round_numbers = itertools.count()


def rows(scale: Scale) -> list[Row]:
    titles = {
        "one_group": f"{scale.members:,} members, one group",
        "many_groups": f"{scale.groups:,} groups of one",
    }
    return [
        row
        for key, title in titles.items()
        for row in (
            Row(f"{key}_cold", f"{title}: join to stable, cold", "s", 2),
            Row(f"{key}_cold_cpu", "the same: CPU of the broker", "s", 2),
            Row(key, f"{title}: join to stable, warm", "s", 2, NO_SLOWER),
            Row(f"{key}_cpu", "the same: CPU of the broker", "s", 2, NO_SLOWER),
            Row(f"{key}_memory", "the same: resident memory", "MB", 0, FOURTH),
        )
    ]


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    settings = {**SETTINGS, "group.initial.rebalance.delay.ms": "0"} if session.quick else SETTINGS
    runs = Runs()
    notes: list[str] = []
    for kind in session.both:
        with brokers([kind], settings) as (target,):
            target.start()
            asyncio.run(_create_offsets_topic(target))
            notes += _measure(target, scale, runs, session.say)
    return [compare("Consumer groups", rows(scale), runs, notes)]


def _measure(target: Target, scale: Scale, runs: Runs, say: Callable[[str], None]) -> list[str]:
    """Returns how the broker got warm."""
    notes = []
    for row, members, groups in (("one_group", scale.members, 1), ("many_groups", 1, scale.groups)):
        say(f"{groups} groups of {members} on {target.name}")
        _round(target, f"{row}_cold", members, groups, runs)

        def discarded_round(row: str = row, members: int = members, groups: int = groups) -> float:
            return _round(target, row, members, groups, Runs())

        warmth = warm({"CPU": discarded_round}, scale.warming_s)
        for _ in range(scale.rounds):
            _round(target, row, members, groups, runs)
        notes.append(warmth.text(f"{target.name}, {groups:,} groups of {members:,}"))
    return notes


def _round(target: Target, row: str, members: int, groups: int, runs: Runs) -> float:
    """Returns the CPU time of the broker, in seconds."""
    number = next(_round_numbers)
    group_of_each = [f"group-{number}-{group}" for group in range(groups) for _ in range(members)]
    return asyncio.run(_join(target, row, group_of_each, members, runs))


async def _create_offsets_topic(target: Target) -> None:
    """The first group creates ``__consumer_offsets``, which is not what is measured."""
    member = Member(target, "first")
    await member.open(asyncio.Semaphore(1))
    await member.become_stable(1)
    await member.close()


async def _join(target: Target, row: str, group_of_each: list[str], size: int, runs: Runs) -> float:
    members = [Member(target, group) for group in group_of_each]
    slots = asyncio.Semaphore(CONNECTING_AT_ONCE)
    await asyncio.gather(*(member.open(slots) for member in members))
    before, started = cpu_seconds(target.pid), time.monotonic()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*(member.become_stable(size) for member in members))
    cpu = cpu_seconds(target.pid) - before
    runs.add(row, target, time.monotonic() - started)
    runs.add(f"{row}_cpu", target, cpu)
    runs.add(f"{row}_memory", target, resident_mb(target.pid))
    await asyncio.gather(*(member.close() for member in members))
    return cpu


class Member:
    """One consumer of the classic protocol, without the consuming."""

    def __init__(self, target: Target, group: str) -> None:
        self._host, port = target.address.rsplit(":", 1)
        self._port = int(port)
        self._group = group
        self._member_id = ""
        self._connection: BrokerConnection

    async def open(self, slots: asyncio.Semaphore) -> None:
        async with slots:
            self._connection = await BrokerConnection.open(
                MACHINE,
                self._host,
                self._port,
                client_id="bench",
                connect_timeout=LIMIT_S,
                request_timeout=LIMIT_S,
            )
            while await self._find() in NOT_YET:  # noqa: ASYNC110 - what is awaited is a broker
                await asyncio.sleep(RETRY_S)

    async def close(self) -> None:
        await self._connection.close()

    async def _find(self) -> ErrorCode:
        request = make(FindCoordinatorRequest, key_type=0, coordinator_keys=(self._group,))
        answer = await self._connection.request(ApiKey.FIND_COORDINATOR, request)
        return error_from(answer.coordinators[0].error_code)

    async def become_stable(self, wanted: int) -> None:
        """Join and sync until the group has as many members as wanted, and stays so."""
        while True:
            generation, size = await self._join_and_sync()
            # Followers do not learn how many there are; a heartbeat says whether more came.
            if generation is not None and (size is None or size == wanted):
                code = await self._heartbeat(generation)
                if code is ErrorCode.NONE:
                    return
            await asyncio.sleep(0)

    async def _join_and_sync(self) -> tuple[int | None, int | None]:
        joined = await self._connection.request(ApiKey.JOIN_GROUP, self._join_request())
        code = error_from(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return None, None
        if code is not ErrorCode.NONE:
            return await self._again(code)
        members = [member.member_id for member in joined.members]
        synced = await self._connection.request(
            ApiKey.SYNC_GROUP,
            make(
                SyncGroupRequest,
                group_id=self._group,
                generation_id=joined.generation_id,
                member_id=self._member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocol_name="range",
                assignments=tuple(
                    make(SyncGroupRequestAssignment, member_id=one, assignment=b"share")
                    for one in members
                ),
            ),
        )
        if synced.error_code:
            return await self._again(error_from(synced.error_code))
        return joined.generation_id, len(members) or None

    async def _again(self, code: ErrorCode) -> tuple[None, None]:
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if code in NOT_YET:
            await asyncio.sleep(RETRY_S)
        if code not in REBALANCE and code not in NOT_YET:
            raise RuntimeError(f"group {self._group}: {code.name}")
        return None, None

    def _join_request(self) -> JoinGroupRequest:
        return make(
            JoinGroupRequest,
            group_id=self._group,
            session_timeout=SESSION_TIMEOUT_MS,
            rebalance_timeout=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(make(JoinGroupRequestProtocol, name="range", metadata=SUBSCRIPTION),),
            reason=None,
        )

    async def _heartbeat(self, generation: int) -> ErrorCode:
        answer = await self._connection.request(
            ApiKey.HEARTBEAT,
            make(
                HeartbeatRequest,
                group_id=self._group,
                generation_id=generation,
                member_id=self._member_id,
                group_instance_id=None,
            ),
        )
        return error_from(answer.error_code)
