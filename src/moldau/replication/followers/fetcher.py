"""Pulling the partitions of one leader: one connection, one session, one fetch at a time.

A fetch costs what has changed since the last one: the session names only partitions whose place
has moved, and an answer has only those with news. What cannot be fetched now (its log is being cut,
the leader refused it) leaves the session until it can, so that a bad partition holds nobody up.
The rules for each answer are those of Kafka's AbstractFetcherThread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from moldau.errors import ErrorCode, KafkaError
from moldau.fetch import FetchParams, FetchSession, fetch_in_session
from moldau.log.errors import UnexpectedOffsetError
from moldau.machine.clock import pause
from moldau.model import TopicPartition
from moldau.net import BufferPool
from moldau.net.broker_connection import BrokerConnection
from moldau.replication.followers.followed import FIRST_PAUSE_S, FollowedPartition
from moldau.replication.followers.log_work import LogWork
from moldau.replication.followers.ports import FollowerPorts
from moldau.replication.followers.questions import LeaderQuestions
from moldau.replication.partition import Partition
from moldau.request_errors import check, error_of
from moldau.wire.fetch import FetchedPartition

log = logging.getLogger(__name__)

_BYTES_PER_TURN: Final = 262_144
"""After so much was appended it is everybody else's turn."""
_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Buffers of answers are kept for the next ones up to so much."""
_WORK_S: Final = 0.1
"""So long a fetch is put off for logs that are being cut or flushed: then the others go on."""
_IDLE_S: Final = 1.0
"""A fetcher without partitions ends after so long; its leader may well have died."""
_PASSING: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""One of the two brokers has not heard of an election, or of a topic, yet."""


class ReplicaFetcher:
    """``on_idle`` is called when it has ended, because there was nothing left to fetch."""

    def __init__(
        self,
        leader_id: int,
        ports: FollowerPorts,
        *,
        on_idle: Callable[[], None],
        on_bytes: Callable[[int], None],
    ) -> None:
        self._leader_id = leader_id
        self._ports = ports
        self._on_idle = on_idle
        self._on_bytes = on_bytes
        self._work = LogWork(ports.logs)
        self._session = FetchSession()
        self._followed: dict[TopicPartition, FollowedPartition] = {}
        self._pauses: dict[TopicPartition, float] = {}
        self._connection: BrokerConnection | None = None
        self._buffers = BufferPool(keep_bytes=_KEPT_BYTES, keep_largest=_KEPT_BYTES)
        self._round = 0
        self._failures = 0
        self._problem: ErrorCode | None = None
        self._news = asyncio.Event()
        self._is_closed = False
        self._task = asyncio.ensure_future(self._run())

    def __len__(self) -> int:
        return len(self._followed)

    def find(self, key: TopicPartition) -> FollowedPartition | None:
        return self._followed.get(key)

    # Partitions come and go ----------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        followed = FollowedPartition(partition, self._round + 1)
        self._followed[followed.key] = followed
        log_ = partition.log
        if log_.settled_end < log_.log_end_offset:
            # What a crash has left in the cache is not stored yet.
            self._begin(followed, self._work.flush(followed))
        else:
            self._ask(followed)

    def remove(self, keys: Iterable[TopicPartition]) -> list[asyncio.Task[None]]:
        """Fetch these no more; returns what is still being done to their logs."""
        under_way = []
        for key in keys:
            followed = self._followed.pop(key, None)
            if followed is None:
                continue
            followed.is_released = True
            followed.cancel_pause()
            self._pauses.pop(key, None)
            self._session.forget(key)
            if followed.work is not None and followed.is_cutting:
                under_way.append(followed.work)
        if not self._followed and not self._is_closed:
            self._ports.clock.call_later(_IDLE_S, self._end_if_idle)
        return under_way

    def _end_if_idle(self) -> None:
        if not self._followed and not self._is_closed:
            self._is_closed = True
            self._task.cancel()
            self._on_idle()

    async def close(self) -> None:
        """End, when nothing is done to any log."""
        self._is_closed = True
        self._task.cancel()
        work = [followed.work for followed in self._followed.values() if followed.work is not None]
        self.remove(tuple(self._followed))
        await asyncio.gather(self._task, *work, return_exceptions=True)

    def _ask(self, followed: FollowedPartition) -> None:
        self._session.want(
            followed.key, followed.next_fetch(self._ports.settings.partition_max_bytes)
        )
        self._news.set()

    # Fetching ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                if not len(self._session):
                    self._news.clear()
                    await self._news.wait()
                    continue
                try:
                    await self._fetch()
                except KafkaError as error:
                    await self._pause(error)
                except Exception as error:
                    log.exception("fetching from broker %d", self._leader_id)
                    await self._pause(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        finally:
            self._disconnect()

    async def _fetch(self) -> None:
        settings = self._ports.settings
        connection = self._connection
        if connection is None or connection.closed:
            connection = await self._ports.connect(self._leader_id, self._buffers)
            self._connection = connection
        self._round = this_round = self._round + 1
        params = FetchParams(
            max_wait_ms=self._max_wait_ms(settings.max_wait_ms),
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            replica_id=self._ports.node_id,
            replica_epoch=self._ports.broker_epoch(),
        )
        answer = await fetch_in_session(
            connection, self._session, params, within=settings.timeout_s
        )
        check(answer.error_code)
        self._failures = 0
        self._problem = None
        await self._take_all(answer.partitions, this_round, connection)
        self._reuse(answer.partitions)

    def _reuse(self, partitions: Mapping[TopicPartition, FetchedPartition]) -> None:
        """Read a later answer into the memory of this one, which is in the logs by now."""
        if not partitions:
            self._buffers.trim()  # nothing came for a while
        for fetched in partitions.values():
            if isinstance(fetched.records, memoryview):
                self._buffers.recycle(fetched.records)  # all are views of one buffer
                return

    def _max_wait_ms(self, longest_ms: int) -> int:
        """Returns how long the leader may keep the fetch: not beyond the end of a pause."""
        if not self._pauses:
            return longest_ms
        left = min(self._pauses.values()) - self._ports.clock.monotonic()
        return max(1, min(longest_ms, int(left * 1000) + 1))

    async def _pause(self, error: KafkaError) -> None:
        """The leader cannot be reached, or refuses everything."""
        self._disconnect()
        if error.code is not self._problem:
            self._problem = error.code
            log.warning("cannot fetch from broker %d: %s", self._leader_id, error)
        seconds = min(FIRST_PAUSE_S * 2 ** min(self._failures, 16), self._ports.settings.backoff_s)
        self._failures += 1
        await pause(self._ports.clock, seconds)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._session.failed()
        if connection is not None:
            connection.abandon()

    # Answers -------------------------------------------------------------------------------------

    async def _take_all(
        self,
        partitions: Mapping[TopicPartition, FetchedPartition],
        this_round: int,
        connection: BrokerConnection,
    ) -> None:
        work: list[asyncio.Task[None]] = []
        appended = 0
        for key, fetched in partitions.items():
            followed = self._followed.get(key)
            if followed is None or followed.is_waiting or followed.first_round > this_round:
                continue
            records = fetched.records
            if isinstance(records, memoryview):
                appended += len(records)
            task = self._take(followed, fetched, connection)
            if task is not None:
                work.append(task)
            if appended >= _BYTES_PER_TURN:
                appended = 0
                await asyncio.sleep(0)
        if work:
            await asyncio.wait(work, timeout=_WORK_S)

    def _take(
        self, followed: FollowedPartition, fetched: FetchedPartition, connection: BrokerConnection
    ) -> asyncio.Task[None] | None:
        """Obey one answer; returns what is not done at once."""
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            questions = LeaderQuestions(
                connection, self._ports.node_id, self._ports.settings.timeout_s
            )
            return self._begin(followed, self._work.find_place(followed, questions))
        error = error_of(fetched.error_code)
        if error is not None:
            self._put_off(followed, error)
            return None
        if fetched.diverging_epoch is not None:
            return self._begin(followed, self._work.cut(followed, *fetched.diverging_epoch))
        try:
            return self._append(followed, fetched)
        except Exception as failure:
            self._put_off(followed, failure)
            return None

    def _append(
        self, followed: FollowedPartition, fetched: FetchedPartition
    ) -> asyncio.Task[None] | None:
        partition, records = followed.partition, fetched.records
        now_ms = self._ports.clock.now_ms()
        info = None
        if isinstance(records, memoryview) and records:
            try:
                info = partition.append_as_follower(records, followed.leader_epoch, now_ms)
            except UnexpectedOffsetError as error:
                if not _begins_inside(partition, error):
                    raise
                return self._begin(
                    followed,
                    self._work.begin_with(followed, bytes(records), error.first_offset, now_ms),
                )
            self._on_bytes(info.size)
        partition.take_over_offsets(fetched.high_watermark, fetched.log_start_offset)
        followed.succeeded()
        if info is not None and info.has_gap and not partition.log.config.compact:
            return self._begin(followed, self._work.make_durable(followed))
        if info is not None and info.flush_due:
            return self._begin(followed, self._work.flush(followed))
        self._ask(followed)
        return None

    # What takes longer ---------------------------------------------------------------------------

    def _begin(
        self,
        followed: FollowedPartition,
        work: Coroutine[Any, Any, None],
    ) -> asyncio.Task[None]:
        self._session.forget(followed.key)
        return followed.begin(self._finish(followed, work))

    async def _finish(self, followed: FollowedPartition, work: Coroutine[Any, Any, None]) -> None:
        failure: Exception | None = None
        try:
            await work
        except Exception as error:
            failure = error
        finally:
            followed.work = None
        if followed.is_released:
            return
        if failure is not None:
            self._put_off(followed, failure)
            return
        followed.succeeded()
        self._ask(followed)

    def _put_off(self, followed: FollowedPartition, error: Exception) -> None:
        """Fetch the others without it for a while."""
        key, ports = followed.key, self._ports
        self._session.forget(key)
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if code is not followed.problem:
            followed.problem = code
            level = logging.INFO if code in _PASSING else logging.ERROR
            unforeseen = error if not isinstance(error, KafkaError | OSError) else None
            log.log(
                level,
                "%s cannot follow broker %d for now: %s",
                key,
                self._leader_id,
                error,
                exc_info=unforeseen,
            )
        if followed.partition.log.failure is not None:
            return  # its disk has failed: the controller hears of it from the log

        def again() -> None:
            self._pauses.pop(key, None)
            self._ask(followed)

        pause = followed.put_off(ports.clock, ports.settings.backoff_s, again)
        self._pauses[key] = ports.clock.monotonic() + pause


def _begins_inside(partition: Partition, error: UnexpectedOffsetError) -> bool:
    """Returns whether an empty log begins in the middle of a batch."""
    end = partition.log.log_end_offset
    is_empty = partition.log.log_start_offset == end
    return is_empty and error.first_offset < end <= error.last_offset
