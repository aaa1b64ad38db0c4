"""Fetch (key 1, versions 4-18): read batches, by long poll.

Behaviour: answers at once when ``min_bytes`` are there, when a partition cannot be read, when a
reader lags a segment behind (a read never spans two), or when nothing may be waited for; otherwise
the request is parked, without polling, until enough arrives or ``max_wait_ms`` is over. Data goes
from the segment file to the socket (sendfile); this module only decides which range. Limits: the
request's, each partition's and ``fetch.max.bytes``; the first partition with data always gives at
least one whole batch, so that a consumer never gets stuck (KIP-74). Sessions:
``broker/fetch_sessions.py``. A client over its quota gets an answer without partitions, and a new
session only with a later one. From version 13 on topics are named by id. Leader epochs are
checked, and a diverging follower is told where to cut (KIP-595).
Known deviations: there are no remote segments and no preferred read replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from moldau.broker.broker import Broker
from moldau.broker.fetch_sessions import SessionPartition
from moldau.broker.request import Request
from moldau.broker.traffic import EXPECTED_OF_CONSUMERS
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import FileSlice, Part
from moldau.net import Pending
from moldau.replication import ParkedFetch, Partition
from moldau.wire.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    decode_fetch_request,
    encode_fetch_response,
)

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
READ_COMMITTED: Final = 1
NO_RECORDS: Final = b""
# A partition that does not exist ends no wait for the others: whoever keeps asking for it would
# never wait again.
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

Reads: TypeAlias = list[tuple[SessionPartition, FetchedPartition]]

decode = decode_fetch_request


class Response:
    __slots__ = ("error_code", "session_id", "topics")

    def __init__(self, error_code: int, session_id: int, topics: list[FetchedTopic]) -> None:
        self.error_code = error_code
        self.session_id = session_id
        self.topics = topics

    @property
    def size(self) -> int:
        return 0

    def told(self, _throttle_ms: int) -> Response:
        return self


def handle(request: Request[FetchRequest]) -> Fetch | Pending:
    broker, body = request.broker, request.body
    fetch = Fetch(broker, body, uses_topic_ids=request.version >= FIRST_VERSION_WITH_TOPIC_IDS)
    settled = fetch.read()
    if settled or fetch.size >= body.min_bytes or body.max_wait_ms <= 0 or fetch.lags():
        return fetch
    pending = Pending()

    def attempt(final: bool) -> int | None:
        try:
            settled = fetch.read()
            if final or settled or fetch.size >= body.min_bytes or fetch.lags():
                pending.complete(request.encode(fetch))
                return None
        except Exception as error:
            pending.complete(request.fail(error))
            return None
        return fetch.size

    parked = ParkedFetch(
        broker.clock,
        fetch.local_partitions(),
        min_bytes=body.min_bytes,
        available=fetch.size,
        max_wait_ms=body.max_wait_ms,
        attempt=attempt,
        as_follower=body.replica_id >= 0,
    )
    pending.on_abandoned = parked.cancel
    return pending


def error_answer(request: Request[FetchRequest], error: KafkaError) -> Response:
    """Before version 13 each partition says it as well: before 7 there is no other place."""
    body = request.body
    topics: list[FetchedTopic] = []
    if request.version < FIRST_VERSION_WITH_TOPIC_IDS:
        topics = [
            (topic.name, topic.topic_id, [_failed(p.partition, error) for p in topic.partitions])
            for topic in body.topics
        ]
    return Response(error.code, body.session_id, topics)


def encode(
    version: int, correlation_id: int, answer: Fetch | Response, throttle_ms: int
) -> Sequence[Part]:
    response = answer.told(throttle_ms)
    return encode_fetch_response(
        version,
        correlation_id,
        throttle_ms,
        response.error_code,
        response.session_id,
        response.topics,
    )


def _failed(index: int, error: KafkaError) -> FetchedPartition:
    return FetchedPartition(index, error.code, records=NO_RECORDS)


class Fetch:
    """One fetch request, read as often as it takes and answered once. The session starts, or takes
    note of what was read, when it is told: not if the client's quota holds it back.
    """

    __slots__ = ("_body", "_broker", "_context", "_reads", "_uses_topic_ids", "size")

    def __init__(self, broker: Broker, body: FetchRequest, *, uses_topic_ids: bool) -> None:
        self._broker = broker
        self._body = body
        self._uses_topic_ids = uses_topic_ids
        self._context = broker.fetch_sessions.open(
            body, uses_topic_ids=uses_topic_ids, now=broker.clock.monotonic()
        )
        self._reads: Reads
        self.size: int
        """Bytes of records that were read."""

    def read(self) -> bool:
        """See what is there. Returns whether waiting would be pointless."""
        room = min(self._body.max_bytes, self._broker.config.fetch_max_bytes)
        reads: Reads = []
        total = unknown = 0
        settled = self._context.error != 0
        for wanted in self._context.partitions:
            answer = wanted.last_answer() or self._read_partition(
                wanted, room - total, first=total == 0
            )
            reads.append((wanted, answer))
            if isinstance(answer.records, FileSlice):
                total += answer.records.size
            elif answer.error_code in UNKNOWN:
                unknown += 1
            elif answer.error_code or answer.diverging_epoch is not None:
                settled = True
        self._reads, self.size = reads, total
        return settled or unknown == len(reads)

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
                committed_only=self._body.isolation_level == READ_COMMITTED,
                follower_id=self._body.replica_id,
                min_one_batch=first,
            )
        except KafkaError as error:
            if error.code not in EXPECTED_OF_CONSUMERS:
                self._broker.traffic.failed_fetches += 1
            return _failed(want.partition, error)
        answer = FetchedPartition(
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
        if want.fetch_offset >= read.high_watermark == read.last_stable_offset and (
            want.last_fetched_epoch < 0 and self._body.replica_id < 0
        ):
            # Until the high watermark moves there is nothing, committed or not.
            wanted.remember(partition, answer)
        return answer

    def _partition(self, wanted: SessionPartition) -> Partition:
        name, topic_id, index = wanted.key
        if name is None:
            topic = self._broker.metadata.topics_by_id.get(topic_id) if topic_id else None
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            name = topic.name
        return self._broker.partition(name, index)

    def lags(self) -> bool:
        """Returns whether what was read ends with its segment: no append can ever make it more."""
        for wanted, answer in self._reads:
            if isinstance(answer.records, FileSlice):
                offset, end = wanted.want.fetch_offset, answer.high_watermark
                if self._body.isolation_level == READ_COMMITTED:
                    end = answer.last_stable_offset
                try:
                    if self._partition(wanted).in_later_segment(offset, end):
                        return True
                except KafkaError:
                    return True  # its disk has just failed, under another partition of the request
        return False

    def local_partitions(self) -> list[Partition]:
        """Returns the partitions whose progress matters to this fetch."""
        partitions = []
        for wanted in self._context.partitions:
            try:
                partitions.append(self._partition(wanted))
            except KafkaError:
                continue
        return partitions

    def told(self, throttle_ms: int) -> Response:
        """Returns the answer; to a client that has to hold back it has no partitions (KIP-219)."""
        broker, context, reads = self._broker, self._context, self._reads
        if throttle_ms:
            return Response(context.error, context.session_id, [])
        if context.starts_session:
            broker.fetch_sessions.start(
                context, uses_topic_ids=self._uses_topic_ids, now=broker.clock.monotonic()
            )
        traffic = broker.traffic
        traffic.fetched_partitions += len(reads)
        if self._body.replica_id >= 0:
            traffic.replication_bytes_out += self.size
        else:
            traffic.bytes_out += self.size
        topics: list[FetchedTopic] = []
        partitions: list[FetchedPartition] = []
        current = None
        for wanted, partition in context.select(reads):
            name, topic_id, _ = wanted.key
            if (name, topic_id) != current:
                current = (name, topic_id)
                partitions = []
                topics.append((name, topic_id, partitions))
            partitions.append(partition)
        return Response(context.error, context.session_id, topics)
