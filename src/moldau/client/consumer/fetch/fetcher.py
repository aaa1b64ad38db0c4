"""Fetches from all brokers that have something for us, one request at a time to each.

A partition is asked for more while less than one full answer of it waits in the buffer, so the next
records are under way while the user looks at the last ones. Fetches wait at the broker until there
is something; while a partition of the same broker is left out because its buffer is full, and being
emptied, they do not wait long, or it would be empty before it can be asked for again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from moldau.client.cluster import Cluster
from moldau.client.consumer.fetch.buffer import FetchBuffer
from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.client.consumer.partition_state import BufferSpace, PartitionState
from moldau.client.consumer.reset import ResetKind, ResetPolicy
from moldau.client.consumer.subscription import SubscriptionState
from moldau.client.consumer.tasks import Tasks
from moldau.client.errors import AuthenticationError, OffsetOutOfRangeError, unforeseen
from moldau.client.metadata import NO_LEADER
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.fetch import FetchAnswer, FetchParams, FetchSession, PartitionFetch, fetch
from moldau.model import TopicPartition
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.request_errors import error_of
from moldau.wire.fetch import FetchedPartition

logger: Final = logging.getLogger(__name__)

SHORT_WAIT_MS: Final = 20

_OLD_METADATA: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
}
_TRY_AGAIN: Final = {
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}

_Asked = dict[TopicPartition, tuple[PartitionState, int, int]]
"""Each partition's state, its version and the offset asked for when the fetch was sent."""


class Fetcher:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        space: BufferSpace,
        buffer: FetchBuffer,
        policy: ResetPolicy,
        changed: Callable[[], None],
        failed: Callable[[KafkaError], None],
    ) -> None:
        self.bytes_fetched = 0
        self.fetches = 0
        self._cluster = cluster
        self._settings = settings
        self._read_committed = settings.isolation_level == "read_committed"
        self._subscription = subscription
        self._space = space
        self._buffer = buffer
        self._policy = policy
        self._changed = changed
        self._failed = failed
        self._sessions: dict[int, FetchSession] = {}
        self._busy: set[int] = set()
        self._pause_until: dict[int, float] = {}
        self._short_of_room = False
        self._tasks = Tasks()

    def has_room_again(self, partitions: Iterable[PartitionState]) -> bool:
        """Returns whether there is something to fetch that there was no room for before."""
        if not self._short_of_room:
            return False
        limit = self._settings.max_partition_fetch_bytes
        return any(state.buffered < limit for state in partitions)

    def step(self, now: float) -> None:
        """Send a fetch to every broker that is idle and has something for us."""
        wanted: dict[int, dict[TopicPartition, PartitionFetch]] = {}
        asked: dict[int, _Asked] = {}
        full: set[int] = set()
        settings = self._settings
        self._short_of_room = self._space.left <= 0
        if self._short_of_room:
            return
        for partition, state in self._subscription.partitions.items():
            if not state.deliverable or now < state.retry_at:
                continue
            place = self._place(partition, state, now)
            if place is None:
                continue
            node, topic_id, epoch = place
            if state.leader_changed(epoch):  # the new leader has to be asked first
                self._changed()
                continue
            if node in self._busy or now < self._pause_until.get(node, 0.0):
                continue
            if state.buffered >= settings.max_partition_fetch_bytes:
                full.add(node)
                self._short_of_room = True
                continue
            wanted.setdefault(node, {})[partition] = PartitionFetch(
                topic_id, state.fetch_from, settings.max_partition_fetch_bytes, epoch
            )
            # Now: before the fetch begins, a rebalance may take the partition, a seek move it.
            asked.setdefault(node, {})[partition] = (state, state.version, state.fetch_from)
        for node, partitions in wanted.items():
            self._busy.add(node)
            wait_ms = settings.fetch_max_wait_ms
            # Records were taken lately: full partitions get room soon, also those whose turn has
            # not come yet.
            if self._buffer.is_read and node in full:
                wait_ms = min(wait_ms, SHORT_WAIT_MS)
            self._tasks.start(self._fetch(node, partitions, asked[node], wait_ms))
        if wanted:
            self._buffer.is_read = False

    def wake_at(self, now: float) -> float:
        """When a pause after a failure is over."""
        pauses = [at for at in self._pause_until.values() if at > now]
        retries = [
            state.retry_at
            for state in self._subscription.partitions.values()
            if state.retry_at > now and state.deliverable
        ]
        return min([*pauses, *retries], default=float("inf"))

    async def close(self) -> None:
        await self._tasks.cancel()

    def _place(
        self, partition: TopicPartition, state: PartitionState, now: float
    ) -> tuple[int, Any, int] | None:
        """The broker to read from, the topic's id and the leader epoch; None if not known now."""
        topic = self._cluster.metadata.topics.get(partition.topic)
        info = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or info is None or info.leader == NO_LEADER:
            self._cluster.request_update(partition.topic)
            state.retry_later(now + self._settings.retry_backoff_ms / 1000)
            return None
        node = info.leader
        if state.preferred_replica is not None:
            usable = state.preferred_replica in self._cluster.metadata.nodes
            if usable and now < state.preferred_until:
                node = state.preferred_replica
            else:
                state.preferred_replica = None
        return node, topic.topic_id, info.leader_epoch

    async def _fetch(
        self, node: int, wanted: dict[TopicPartition, PartitionFetch], asked: _Asked, wait_ms: int
    ) -> None:
        session = self._sessions.setdefault(node, FetchSession())
        try:
            connection = await self._cluster.connection(node, "fetch")
            answer = await fetch(
                connection,
                wanted,
                self._params(wait_ms),
                session=session,
                within=self._settings.request_timeout,
            )
            self._pause_until.pop(node, None)
            self._answered(node, answer, asked)
        except KafkaError as error:
            self._broker_failed(node, error, wanted)
        except Exception as error:
            # What was not taken is asked for again, and whoever polls knows why it takes so long.
            session.failed()
            fault = unforeseen(f"reading from broker {node}", error)
            self._broker_failed(node, fault, wanted)
            self._failed(fault)
        finally:
            self._busy.discard(node)
        self._changed()

    def _params(self, wait_ms: int) -> FetchParams:
        settings = self._settings
        return FetchParams(
            max_wait_ms=wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=max(1, min(settings.fetch_max_bytes, self._space.left)),
            read_committed=self._read_committed,
            rack_id=settings.client_rack,
        )

    def _broker_failed(
        self, node: int, error: KafkaError, wanted: dict[TopicPartition, PartitionFetch]
    ) -> None:
        logger.info("broker %d cannot be fetched from, trying again: %s", node, error)
        now = asyncio.get_running_loop().time()
        self._pause_until[node] = now + self._settings.retry_backoff_ms / 1000
        for partition in wanted:
            state = self._subscription.partitions.get(partition)
            if state is not None and state.preferred_replica == node:
                state.preferred_replica = None
        if isinstance(error, AuthenticationError):
            self._failed(error)
        self._cluster.request_update(*(partition.topic for partition in wanted))

    def _answered(self, node: int, answer: FetchAnswer, asked: _Asked) -> None:
        self.fetches += 1
        if answer.throttle_ms > 0:
            now = asyncio.get_running_loop().time()
            self._pause_until[node] = now + answer.throttle_ms / 1000
        error = error_of(answer.error_code)
        if error is not None:
            logger.warning("broker %d refused a fetch: %s", node, error.message)
            now = asyncio.get_running_loop().time()
            self._pause_until[node] = now + self._settings.retry_backoff_ms / 1000
            return
        for partition, result in answer.partitions.items():
            state, version, offset = asked.get(partition, (None, 0, 0))
            mine = self._subscription.partitions.get(partition)
            if state is None or mine is not state or state.version != version:
                continue  # not ours any more, or somewhere else by now
            failure = error_of(result.error_code)
            if failure is None:
                self._take(partition, state, offset, result)
            else:
                self._partition_failed(partition, state, offset, failure, result, answer)

    def _take(
        self,
        partition: TopicPartition,
        state: PartitionState,
        offset: int,
        result: FetchedPartition,
    ) -> None:
        state.high_watermark = result.high_watermark
        state.last_stable_offset = result.last_stable_offset
        state.log_start_offset = result.log_start_offset
        if result.preferred_read_replica >= 0:
            now = asyncio.get_running_loop().time()
            state.preferred_replica = result.preferred_read_replica
            state.preferred_until = now + self._settings.metadata_max_age_ms / 1000
        data: Any = result.records
        if not data:
            return
        fetched = FetchedRecords(
            partition,
            offset,
            data,
            aborted=(result.aborted or ()) if self._read_committed else None,
            check_crcs=self._settings.check_crcs,
        )
        self.bytes_fetched += len(data)
        try:
            end = fetched.end_offset()
        except (CorruptRecordError, InvalidRecordError) as error:
            state.retry_later(float("inf"))  # until the user seeks
            self._failed(
                KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{partition} cannot be read at offset {offset}: {error}",
                )
            )
            return
        if end > offset:
            self._buffer.add(state, fetched, end)
        else:
            state.retry_later(asyncio.get_running_loop().time() + 1.0)
            self._failed(
                KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"{partition} has no whole batch at offset {offset}"
                )
            )

    def _partition_failed(
        self,
        partition: TopicPartition,
        state: PartitionState,
        offset: int,
        error: KafkaError,
        result: FetchedPartition,
        answer: FetchAnswer,
    ) -> None:
        now = asyncio.get_running_loop().time()
        state.retry_later(now + self._settings.retry_backoff_ms / 1000)
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(partition, state, offset)
        elif error.code in _OLD_METADATA:
            logger.debug("%s: %s; asking who leads it", partition, error.message)
            state.preferred_replica = None
            leader = result.current_leader
            if leader is None or not self._cluster.learn_leader(
                partition, *leader, answer.node_endpoints
            ):
                self._cluster.request_update(partition.topic)
        elif error.code in _TRY_AGAIN or error.retriable:
            logger.debug("%s: %s; trying again", partition, error.message)
        else:
            self._failed(type(error)(error.code, f"{partition}: {error.message}"))

    def _out_of_range(self, partition: TopicPartition, state: PartitionState, offset: int) -> None:
        if state.preferred_replica is not None:
            # A follower may lack what the leader has: ask the leader before drawing conclusions.
            state.preferred_replica = None
        elif state.position is None or state.position.offset != offset:
            # Records that are buffered come before this place: not out of range for the user yet.
            state.retry_later(asyncio.get_running_loop().time() + 0.1)
        elif self._policy.kind is ResetKind.NONE:
            state.retry_later(float("inf"))  # until the user seeks
            self._failed(
                OffsetOutOfRangeError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{partition} does not hold offset {offset}, and auto.offset.reset is none",
                    {partition: offset},
                )
            )
        else:
            logger.info("%s does not hold offset %d; reset", partition, offset)
            state.request_reset(self._policy)
