"""A follower and what its leader answers: every answer, and what becomes of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.support.memory_network import as_bytes
from tests.support.partitions import LOCAL, SECOND, TOPIC_ID, batch, state

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode
from moldau.log import LogManager
from moldau.machine.real import real_machine
from moldau.net import BufferPool
from moldau.net.broker_connection import BrokerConnection
from moldau.replication import Partition, ReplicaManager
from moldau.replication.followers import FetcherSettings, FollowerPorts, ReplicaFetchers
from moldau.request_errors import ConnectionLostError
from moldau.testing.disk import MemoryDisk
from moldau.wire.api import ApiKey
from moldau.wire.fetch import (
    FetchedPartition,
    FetchRequest,
    decode_fetch_request,
    encode_fetch_response,
)
from moldau.wire.headers import read_request_header

VERSION = 17
BOTH = (LOCAL, SECOND)
IDS = {"t": TOPIC_ID, "u": UUID(int=9)}


def records(*batches: memoryview) -> memoryview:
    return memoryview(bytearray(b"".join(batches)))


def some(first: int, last: int, epoch: int = 3) -> memoryview:
    """Batches of one record each."""
    return records(
        *(batch(base_offset=offset, leader_epoch=epoch) for offset in range(first, last))
    )


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it never came true")


class Leader:
    """A broker that answers as it is told, and keeps fetches waiting until then."""

    def __init__(self) -> None:
        self.replies: deque[dict[str, FetchedPartition] | Exception] = deque()
        self.requests: list[FetchRequest] = []
        self.asked: list[tuple[ApiKey, Any]] = []
        self.log_start = 0
        self.log_end = 0
        self.epoch_end = (-1, -1)
        self.connections = 0
        self.news = asyncio.Event()
        self.closed = False

    async def connect(self, broker_id: int, _pool: BufferPool) -> BrokerConnection:
        assert broker_id == SECOND
        self.connections += 1
        return cast("BrokerConnection", self)

    def abandon(self) -> None:
        pass

    def answer(self, **partitions: FetchedPartition) -> None:
        self.replies.append(partitions)
        self.news.set()

    def fail(self, error: Exception) -> None:
        self.replies.append(error)
        self.news.set()

    async def exchange(
        self,
        api: ApiKey,
        encode: Callable[[int, int, str], Sequence[bytes]],
        decode: Callable[[int, memoryview], Any],
        *,
        within: float | None = None,
    ) -> Any:
        frame = memoryview(b"".join(encode(VERSION, 5, "test")))[4:]
        _, start = read_request_header(frame)
        self.requests.append(decode_fetch_request(VERSION, frame, start))
        while not self.replies:
            self.news.clear()
            await self.news.wait()
        reply = self.replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        topics = [(topic, IDS[topic], [partition]) for topic, partition in reply.items()]
        parts = encode_fetch_response(VERSION, 5, 0, 0, 77, topics)
        return decode(VERSION, memoryview(bytearray(b"".join(map(as_bytes, parts))))[4:])

    async def request(self, api: ApiKey, message: Any, *, within: float) -> Any:
        self.asked.append((api, message))
        if api is ApiKey.LIST_OFFSETS:
            is_start = message.topics[0].partitions[0].timestamp == -2
            offset = self.log_start if is_start else self.log_end
            partition = SimpleNamespace(error_code=0, offset=offset)
        else:
            epoch, end = self.epoch_end
            partition = SimpleNamespace(error_code=0, leader_epoch=epoch, end_offset=end)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])

    def last_asked(self, topic: str = "t") -> tuple[int, int, int] | None:
        """Offset, leader epoch and last epoch of the last fetch, if it named the topic."""
        for named in self.requests[-1].topics:
            if named.topic_id == IDS[topic]:
                (wanted,) = named.partitions
                return (
                    wanted.fetch_offset,
                    wanted.current_leader_epoch,
                    wanted.last_fetched_epoch,
                )
        return None


def fetched(data: memoryview | None = None, **fields: Any) -> FetchedPartition:
    return FetchedPartition(
        0,
        fields.get("error", 0),
        fields.get("high_watermark", 0),
        -1,
        fields.get("log_start", 0),
        records=b"" if data is None else bytes(data),
        diverging_epoch=fields.get("diverging"),
    )


class Follower:
    """A broker with logs in memory that follows ``SECOND``."""

    def __init__(self, disk: MemoryDisk) -> None:
        config = BrokerConfig.load({"node.id": str(LOCAL), "log.dirs": "/logs"})
        self.machine = replace(real_machine(), disk=disk)
        self.logs = LogManager(self.machine, ["/logs"], config)
        self.topic_config = TopicConfig()
        self.replicas = ReplicaManager(LOCAL, self.logs, lambda _: self.topic_config)
        self.logs.use_high_watermarks(self.replicas.high_watermarks, self.replicas.high_watermark)
        self.leader = Leader()
        self.replicas.following = self.fetchers = ReplicaFetchers(
            FollowerPorts(
                node_id=LOCAL,
                broker_epoch=lambda: 42,
                clock=self.machine.clock,
                logs=self.logs,
                connect=self.leader.connect,
                settings=FetcherSettings(
                    max_wait_ms=500,
                    min_bytes=1,
                    max_bytes=1 << 20,
                    partition_max_bytes=1 << 20,
                    timeout_s=30.0,
                    backoff_s=0.05,
                ),
                fetchers_per_leader=lambda: 1,
            )
        )

    async def follow(self, *topics: str, epoch: int = 3) -> Partition:
        """Become a follower; returns the replica of the first topic."""
        count = len(self.leader.requests)
        await self.replicas.apply(
            [
                state(leader=SECOND, epoch=epoch, isr=BOTH, topic=topic, topic_id=IDS[topic])
                for topic in topics or ("t",)
            ]
        )
        if not count:
            await self.requests(1)
        return self.replicas.topics[(topics or ("t",))[0]][0]

    async def requests(self, count: int) -> None:
        """Wait until the leader has been asked so often."""
        await eventually(lambda: len(self.leader.requests) >= count)

    async def answered(self, **partitions: FetchedPartition) -> None:
        """Answer, and wait for the next fetch."""
        count = len(self.leader.requests)
        self.leader.answer(**partitions)
        await self.requests(count + 1)


@pytest.fixture
async def follower() -> AsyncIterator[Follower]:
    follower = Follower(MemoryDisk())
    await follower.logs.start(lambda _: follower.topic_config)
    yield follower
    await follower.fetchers.close()
    await follower.logs.shutdown()
    follower.machine.threads.close()


async def test_what_comes_is_appended_and_the_next_is_asked_for(follower: Follower) -> None:
    partition = await follower.follow()
    request = follower.leader.requests[0]
    assert (request.replica_id, request.replica_epoch, request.session_epoch) == (LOCAL, 42, 0)
    assert follower.leader.last_asked() == (0, 3, -1)
    await follower.answered(t=fetched(some(0, 5), high_watermark=2))
    assert (partition.log.log_end_offset, partition.high_watermark) == (5, 2)
    assert follower.leader.last_asked() == (5, 3, 3)
    assert follower.leader.requests[1].session_id == 77
    await follower.answered(t=fetched(high_watermark=9, log_start=4))
    assert (partition.high_watermark, partition.log.log_start_offset) == (5, 4)
    await follower.answered()
    assert follower.leader.last_asked() is None, "nothing has changed"
    assert follower.fetchers.bytes_in == len(some(0, 5))


async def test_what_is_refused_waits_and_the_others_go_on(follower: Follower) -> None:
    await follower.follow("t", "u")
    leader = follower.leader
    await follower.answered(t=fetched(error=ErrorCode.UNKNOWN_LEADER_EPOCH), u=fetched(some(0, 3)))
    assert leader.requests[-1].forgotten == [(None, IDS["t"], [0])]
    assert leader.last_asked("u") == (3, 3, 3)
    assert leader.requests[-1].max_wait_ms <= 51, "no longer than the pause"
    assert follower.fetchers.problems == 1
    await asyncio.sleep(0.06)
    await follower.answered()
    assert leader.last_asked() == (0, 3, -1)
    await follower.answered(t=fetched(some(0, 2)))
    assert follower.fetchers.problems == 0
    assert leader.last_asked() == (2, 3, 3)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_no_error_of_the_leader_cuts_a_log(follower: Follower, code: ErrorCode) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 5)))
    follower.leader.answer(t=fetched(error=code))
    await follower.requests(3)
    assert follower.leader.last_asked() == (5, 3, 3)
    assert partition.log.log_end_offset == 5


async def test_a_log_that_diverges_is_cut_where_the_epochs_part(follower: Follower) -> None:
    partition = await follower.follow()
    await follower.answered(
        t=fetched(records(some(0, 5, epoch=1), some(5, 9, epoch=3)), high_watermark=7)
    )
    await follower.replicas.apply([state(leader=SECOND, epoch=6, isr=BOTH)])
    follower.leader.answer()
    await follower.requests(3)
    assert follower.leader.last_asked() == (9, 6, 3)
    await follower.answered(t=fetched(diverging=(1, 6)))
    assert follower.leader.last_asked() == (5, 6, 1)
    assert (partition.log.log_end_offset, partition.high_watermark) == (5, 5)
    assert partition.log.recovery_point == 5
    await follower.answered(t=fetched(some(5, 6, epoch=4)))
    assert partition.log.leader_epochs.entries == [(1, 0), (4, 5)]


async def test_a_leader_that_begins_later_begins_the_log_anew(follower: Follower) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 5), high_watermark=5))
    follower.leader.log_start = 100
    await follower.answered(t=fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (100, 100, 100)
    assert follower.leader.last_asked() == (100, 3, -1)
    assert follower.leader.asked[0][1].replica_id == LOCAL


async def test_a_leader_that_ends_earlier_says_by_epoch_where_to_cut(follower: Follower) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 9), high_watermark=8))
    follower.leader.epoch_end = (3, 6)
    await follower.answered(t=fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert (partition.log.log_end_offset, partition.high_watermark) == (6, 6)


async def test_a_leader_that_knows_no_epochs_says_by_its_end_where_to_cut(
    follower: Follower,
) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 9), high_watermark=8))
    follower.leader.log_end = 5
    await follower.answered(t=fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert (partition.log.log_end_offset, partition.high_watermark) == (5, 5)


async def test_a_leader_that_refuses_what_it_has_is_not_asked_all_the_time(
    follower: Follower,
) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 9), high_watermark=8))
    follower.leader.log_end = 9
    follower.leader.answer(t=fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    followed = None
    async with asyncio.timeout(60):
        while followed is None or not followed.problem:
            await asyncio.sleep(0)
            (fetcher,) = follower.fetchers._fetchers.values()
            followed = fetcher.find(partition.topic_partition)
    assert followed.is_waiting, "for a pause to end"
    assert partition.log.log_end_offset == 9
    await follower.requests(3)
    assert follower.leader.last_asked() == (9, 3, 3)


async def test_a_log_may_begin_inside_of_a_batch(follower: Follower) -> None:
    partition = await follower.follow()
    follower.leader.log_start = 103
    await follower.answered(t=fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    large = batch(10, base_offset=100, leader_epoch=3)
    await follower.answered(t=fetched(large, high_watermark=110, log_start=103))
    assert partition.log.log_end_offset == 110
    assert follower.leader.last_asked() == (110, 3, 3)
    await follower.answered(t=fetched(high_watermark=110, log_start=103))
    assert partition.log.log_start_offset == 103


async def test_damaged_records_are_fetched_again(follower: Follower) -> None:
    partition = await follower.follow()
    damaged = some(0, 2)
    damaged[-1] ^= 1
    await follower.answered(t=fetched(damaged))
    assert partition.log.log_end_offset == 1, "the first one was good"
    damaged = some(1, 2)
    damaged[-1] ^= 1
    follower.leader.answer(t=fetched(damaged))
    await follower.requests(3)
    assert follower.leader.last_asked() == (1, 3, 3)
    await follower.answered(t=fetched(some(1, 2)))
    assert partition.log.log_end_offset == 2


async def test_a_gap_in_a_topic_that_was_compacted_survives_a_crash(follower: Follower) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(records(some(0, 2), some(8, 9))))
    assert partition.log.log_end_offset == partition.log.recovery_point == 9
    assert follower.leader.last_asked() == (9, 3, 3)


async def test_what_the_leader_is_told_to_be_stored_is_durable(follower: Follower) -> None:
    follower.topic_config = replace(TopicConfig(), flush_messages=1)
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 4)))
    assert follower.leader.last_asked() == (4, 3, 3)
    assert partition.log.recovery_point == 4


@pytest.mark.parametrize("error", [ConnectionLostError("gone"), RuntimeError("a mistake")])
async def test_a_lost_connection_begins_a_new_session(follower: Follower, error: Exception) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 4)))
    follower.leader.fail(error)
    await follower.requests(3)
    assert follower.leader.connections == 2
    assert follower.leader.requests[-1].session_epoch == 0
    assert follower.leader.last_asked() == (4, 3, 3)
    await follower.answered(t=fetched(some(4, 5)))
    assert partition.log.log_end_offset == 5


async def test_an_answer_to_an_earlier_epoch_is_not_appended(follower: Follower) -> None:
    partition = await follower.follow()
    await follower.replicas.apply([state(leader=LOCAL, epoch=4, isr=BOTH)])
    await follower.replicas.apply([state(leader=SECOND, epoch=5, isr=BOTH)])
    await follower.answered(t=fetched(some(0, 5)))
    assert partition.log.log_end_offset == 0
    assert follower.leader.last_asked() == (0, 5, 4)


async def test_a_leader_does_not_take_what_it_asked_for_as_a_follower(follower: Follower) -> None:
    partition = await follower.follow()
    await follower.replicas.apply([state(leader=LOCAL, epoch=4, isr=BOTH)])
    follower.leader.answer(t=fetched(some(0, 5)))
    await asyncio.sleep(0.02)
    assert (partition.is_leader, partition.log.log_end_offset) == (True, 0)


async def test_nobody_leads_before_the_log_is_cut(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 9)))
    flushing, flush_all = asyncio.Event(), follower.logs._flushes.flush_all

    async def slowly(log: Any) -> None:
        await flushing.wait()
        await flush_all(log)

    monkeypatch.setattr(follower.logs._flushes, "flush_all", slowly)
    follower.leader.answer(t=fetched(diverging=(3, 4)))
    await eventually(lambda: partition.log.log_end_offset < 9)
    leading = asyncio.ensure_future(
        follower.replicas.apply([state(leader=LOCAL, epoch=4, isr=BOTH)])
    )
    await asyncio.sleep(0.02)
    assert partition.leader_epoch == 3
    flushing.set()
    await leading
    assert partition.is_leader
    assert partition.log.leader_epochs.entries == [(3, 0), (4, 4)]


async def test_a_log_is_not_cut_for_a_leader_that_has_been_replaced(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await follower.follow()
    await follower.answered(t=fetched(some(0, 9)))
    asked = asyncio.Event()

    async def hang(*_: Any) -> int:
        asked.set()
        await asyncio.sleep(0.05)
        return 100

    monkeypatch.setattr("moldau.replication.followers.questions.LeaderQuestions.log_start", hang)
    follower.leader.answer(t=fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    await asked.wait()
    async with asyncio.timeout(0.04):
        await follower.replicas.apply([state(leader=LOCAL, epoch=4, isr=BOTH)])
    await asyncio.sleep(0.1)
    assert (partition.is_leader, partition.log.log_end_offset) == (True, 9)


async def test_a_failed_disk_stops_its_own_replicas_only(follower: Follower) -> None:
    await follower.follow("t", "u")
    await follower.answered(t=fetched(some(0, 3)), u=fetched(some(0, 3)))
    follower.replicas.topics["t"][0].log.health.fail("it burns")
    await follower.answered(t=fetched(some(3, 5)), u=fetched(some(3, 5)))
    assert follower.leader.last_asked() is None
    assert follower.leader.last_asked("u") == (5, 3, 3)


async def test_a_fetcher_without_partitions_ends(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.replication.followers.fetcher._IDLE_S", 0.01)
    await follower.follow()
    await follower.replicas.apply([state(leader=-1, epoch=4, isr=BOTH)])
    await asyncio.sleep(0.05)
    assert not follower.fetchers._fetchers
    await follower.replicas.apply([state(leader=SECOND, epoch=5, isr=BOTH)])
    await follower.requests(2)
    assert follower.leader.connections == 2
