"""Fetch (key 1, versions 4-18): read batches, by long poll.

Behaviour: answers at once when ``min_bytes`` are there, when a partition cannot be read, when a
reader lags a segment behind (a read never spans two), or when nothing may be waited for; otherwise
the request is parked, without polling, until enough arrives or ``max_wait_ms`` is over. Data goes
from the segment file to the socket (sendfile); this module only decides which range. Limits: the
request's, each partition's and ``fetch.max.bytes``; the first partition with data always gives at
least one whole batch, so that a consumer never gets stuck (KIP-74). Sessions:
``broker/fetch_sessions.py``. From version 13 on topics are named by id. Leader epochs are checked,
and a diverging follower is told where to cut (KIP-595).
Known deviations: there are no remote segments and no preferred read replica.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.context import Broker
from moldau.broker.fetch_sessions import FetchContext, SessionPartition
from moldau.broker.traffic import EXPECTED_OF_CONSUMERS
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import FileSlice, Part
from moldau.net import Pending, ServerConnection
from moldau.replication import ParkedFetch, Partition
from moldau.wire.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    decode_fetch_request,
    encode_fetch_response,
)

FIRST_VERSION_WITH_TOPIC_IDS = 13
READ_COMMITTED = 1
NO_RECORDS = b""
# A partition that does not exist ends no wait for the others: whoever keeps asking for it would
# never wait again.
UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

Parts = Sequence[Part]
Found = list[tuple[SessionPartition, FetchedPartition]]


def handle(
    broker: Broker,
    _connection: ServerConnection,
    version: int,
    correlation_id: int,
    frame: memoryview,
    position: int,
) -> Parts | Pending | None:
    request = decode_fetch_request(version, frame, position)
    context = broker.fetch_sessions.open(
        request,
        uses_topic_ids=version >= FIRST_VERSION_WITH_TOPIC_IDS,
        now=broker.clock.monotonic(),
    )
    fetch = _Fetch(broker, version, correlation_id, request, context)
    found, size, settled = fetch.read()
    if settled or size >= request.min_bytes or request.max_wait_ms <= 0 or fetch.lags(found):
        return fetch.answer(found, size)
    pending = Pending()

    def attempt(final: bool) -> int | None:
        found, size, settled = fetch.read()
        if final or settled or size >= request.min_bytes or fetch.lags(found):
            pending.complete(fetch.answer(found, size))
            return None
        return size

    parked = ParkedFetch(
        broker.clock,
        fetch.local_partitions(),
        min_bytes=request.min_bytes,
        available=size,
        max_wait_ms=request.max_wait_ms,
        attempt=attempt,
        as_follower=request.replica_id >= 0,
    )
    pending.on_abandoned = parked.cancel
    return pending


class _Fetch:
    """One fetch request, read as often as it takes and answered once."""

    __slots__ = ("_broker", "_context", "_correlation_id", "_request", "_version")

    def __init__(
        self,
        broker: Broker,
        version: int,
        correlation_id: int,
        request: FetchRequest,
        context: FetchContext,
    ) -> None:
        self._broker = broker
        self._version = version
        self._correlation_id = correlation_id
        self._request = request
        self._context = context

    def read(self) -> tuple[Found, int, bool]:
        """What is there, its size, and whether waiting would be pointless."""
        request = self._request
        room = min(request.max_bytes, self._broker.config.fetch_max_bytes)
        found: Found = []
        total = unknown = 0
        settled = self._context.error != 0
        for wanted in self._context.partitions:
            answer = self._read_partition(wanted, room - total, first=total == 0)
            found.append((wanted, answer))
            if isinstance(answer.records, FileSlice):
                total += answer.records.size
            elif answer.error_code in UNKNOWN:
                unknown += 1
            elif answer.error_code or answer.diverging_epoch is not None:
                settled = True
        return found, total, settled or unknown == len(found)

    def _read_partition(
        self, wanted: SessionPartition, room: int, *, first: bool
    ) -> FetchedPartition:
        want = wanted.want
        try:
            partition = self._partition(wanted)
            read = partition.read(
                want.fetch_offset,
                max(min(want.max_bytes, room), 0),
                current_leader_epoch=want.current_leader_epoch,
                last_fetched_epoch=want.last_fetched_epoch,
                committed_only=self._request.isolation_level == READ_COMMITTED,
                follower_id=self._request.replica_id,
                min_one_batch=first,
            )
        except KafkaError as error:
            if error.code not in EXPECTED_OF_CONSUMERS:
                self._broker.traffic.failed_fetches += 1
            return FetchedPartition(want.partition, error.code, records=NO_RECORDS)
        return FetchedPartition(
            want.partition,
            0,
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset,
            read.aborted,
            -1,
            read.records or NO_RECORDS,
            read.diverging_epoch,
        )

    def _partition(self, wanted: SessionPartition) -> Partition:
        name, topic_id, index = wanted.key
        if name is None:
            topic = self._broker.metadata.topics_by_id.get(topic_id) if topic_id else None
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            name = topic.name
        return self._broker.partition(name, index)

    def lags(self, found: Found) -> bool:
        """Whether what was found ends with its segment: no append can ever make it more."""
        for wanted, answer in found:
            if isinstance(answer.records, FileSlice):
                offset, end = wanted.want.fetch_offset, answer.high_watermark
                if self._request.isolation_level == READ_COMMITTED:
                    end = answer.last_stable_offset
                try:
                    if self._partition(wanted).in_later_segment(offset, end):
                        return True
                except KafkaError:
                    return True  # its disk has just failed, under another partition of the request
        return False

    def local_partitions(self) -> list[Partition]:
        """The partitions whose progress matters to this fetch."""
        partitions = []
        for wanted in self._context.partitions:
            try:
                partitions.append(self._partition(wanted))
            except KafkaError:
                continue
        return partitions

    def answer(self, found: Found, size: int) -> Parts:
        traffic = self._broker.traffic
        traffic.fetched_partitions += len(found)
        if self._request.replica_id >= 0:
            traffic.replication_bytes_out += size
        else:
            traffic.bytes_out += size
        topics: list[FetchedTopic] = []
        partitions: list[FetchedPartition] = []
        current = None
        for wanted, partition in self._context.select(found):
            name, topic_id, _ = wanted.key
            if (name, topic_id) != current:
                current = (name, topic_id)
                partitions = []
                topics.append((name, topic_id, partitions))
            partitions.append(partition)
        return encode_fetch_response(
            self._version,
            self._correlation_id,
            0,
            self._context.error,
            self._context.session_id,
            topics,
        )
