"""Many members and many groups: from the first join to all of them stable, beside Apache Kafka.

Members speak the classic protocol by themselves, each on a connection of its own: join until the
member id is accepted, the leader gives everybody a share, and whoever is told that the group
rebalances joins again. Both brokers run with their default ``group.initial.rebalance.delay.ms``.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment

from bench.broker import Runs
from bench.report import Goal, Row
from bench.targets import Kafka, Moldau, Target, cpu_seconds, resident_mb
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

ROWS = [
    Row("one_group", "{members:,} members, one group: join to stable", "s", 2, NO_SLOWER),
    Row("one_group_cpu", "the same: CPU of the broker", "s", 2, Goal(at_most_ratio=1)),
    Row("one_group_memory", "the same: resident memory", "MB", 0, Goal(at_most_ratio=1 / 4)),
    Row("many_groups", "{groups:,} groups of one: join to stable", "s", 2, NO_SLOWER),
    Row("many_groups_cpu", "the same: CPU of the broker", "s", 2, Goal(at_most_ratio=1)),
    Row("many_groups_memory", "the same: resident memory", "MB", 0, Goal(at_most_ratio=1 / 4)),
]  # fmt: skip


def rows(members: int, groups: int) -> list[Row]:
    return [row._replace(title=row.title.format(members=members, groups=groups)) for row in ROWS]


def run(members: int, groups: int, say: Callable[[str], None]) -> Runs:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    runs = Runs()
    for kind in (Moldau, Kafka):
        with tempfile.TemporaryDirectory(prefix="moldau-bench-") as directory:
            target = kind(Path(directory), SETTINGS)
            target.start()
            try:
                asyncio.run(_measure(target, members, groups, runs, say))
            finally:
                target.stop()
    return runs


async def _measure(
    target: Target, members: int, groups: int, runs: Runs, say: Callable[[str], None]
) -> None:
    await _warm_up(target)
    say(f"{members} members of one group on {target.name}")
    await _time(target, "one_group", ["big"] * members, runs)
    say(f"{groups} groups on {target.name}")
    await _time(target, "many_groups", [f"group-{number}" for number in range(groups)], runs)


async def _warm_up(target: Target) -> None:
    """The first group creates ``__consumer_offsets``, which is not what is measured."""
    member = Member(target, "first")
    await member.open(asyncio.Semaphore(1))
    await member.become_stable({})
    await member.close()


async def _time(target: Target, row: str, group_of_each: list[str], runs: Runs) -> None:
    members = [Member(target, group) for group in group_of_each]
    slots = asyncio.Semaphore(CONNECTING_AT_ONCE)
    await asyncio.gather(*(member.open(slots) for member in members))
    size = {group: group_of_each.count(group) for group in set(group_of_each)}
    before, started = cpu_seconds(target.pid), time.monotonic()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*(member.become_stable(size) for member in members))
    runs.add(row, target, time.monotonic() - started)
    runs.add(f"{row}_cpu", target, cpu_seconds(target.pid) - before)
    runs.add(f"{row}_memory", target, resident_mb(target.pid))
    await asyncio.gather(*(member.close() for member in members))


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

    async def become_stable(self, sizes: dict[str, int]) -> None:
        """Join and sync until the group is complete and stays so."""
        wanted = sizes.get(self._group, 1)
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
