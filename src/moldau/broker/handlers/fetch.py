"""Fetch (key 1, versions 4-18): read batches, by long poll.

Behaviour: answers at once when ``min_bytes`` are there, when a partition cannot be read, when a
reader lags a segment behind (a read never spans two), or when nothing may be waited for; otherwise
the request is parked, without polling, until enough arrives or ``max_wait_ms`` is over. Data goes
from the segment file to the socket (sendfile); this module only decides which range. Limits: the
request's, each partition's and ``fetch.max.bytes``; the first partition with data always gives at
least one whole batch, so that a consumer never gets stuck (KIP-74). Sessions:
``broker/fetch_sessions.py``. A client over its quota gets an answer without partitions, and a new
session only with a later one. From version 13 on topics are named by id. Leader epochs are
checked, and a diverging follower is told where to cut (KIP-595). Fetches of very many partitions
are read and answered some at a time, with everybody else's turn in between.
Known deviations: there are no remote segments and no preferred read replica. When fetches of very
many partitions wait already, a further one is answered after a tenth of a second, whatever comes
meanwhile; one that names a topic with more than 249 characters does not wait at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

from moldau.broker.broker import Broker
from moldau.broker.collector import YoungObjectsOnly
from moldau.broker.fetch_sessions import (
    LARGE_FETCH,
    PARTITIONS_PER_TURN,
    FetchContext,
    PartitionMap,
    SessionPartition,
    Waiting,
    are_legal,
)
from moldau.broker.request import Request
from moldau.broker.traffic import EXPECTED_OF_CONSUMERS
from moldau.broker.turns import others_turn
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import FileSlice, Part
from moldau.net import Pending
from moldau.replication import ParkedFetch, Partition
from moldau.wire.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    FetchResponseWriter,
    decode_fetch_request,
    encode_fetch_response,
    fetch_response_head,
)

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
READ_COMMITTED: Final = 1
NO_RECORDS: Final = b""
MANY: Final = 50
"""Partitions after which it is the others' turn before this client's next request."""
WITHOUT_PLACE_S: Final = 0.1
"""How long a fetch takes that may not wait: its client asks again at once."""
# A partition that does not exist ends no wait for the others: whoever keeps asking for it would
# never wait again.
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

Reads: TypeAlias = list[tuple[SessionPartition, FetchedPartition]]
Gathered: TypeAlias = list[tuple[str | None, UUID | None, list[FetchedPartition]]]

decode = decode_fetch_request


class Response:
    __slots__ = ("error_code", "session_id", "topics")

    def __init__(self, error_code: int, session_id: int, topics: Sequence[FetchedTopic]) -> None:
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
    by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    sessions = broker.fetch_sessions
    context = sessions.open(body, uses_topic_ids=by_id, now=broker.clock.monotonic())
    fetch = Fetch(broker, body, context, uses_topic_ids=by_id)
    if sessions.discarded:
        _discard(broker)
    if len(context.partitions) > LARGE_FETCH:
        large = LargeFetch(request, fetch)
        broker.tasks.spawn(request.timed(large.begin()))
        return large.pending
    settled = fetch.read()
    if len(context.partitions) > MANY:
        request.connection.end_turn()
    if settled or fetch.size >= body.min_bytes or body.max_wait_ms <= 0 or fetch.lags():
        return fetch
    if not are_legal(body):
        return fetch
    waiting = sessions.wait(len(context.partitions))
    if waiting is None:
        return _answer_later(request, fetch)
    return _park(request, fetch, waiting)


async def handle_large(request: Request[FetchRequest]) -> Pending:
    """As ``handle``, with everybody else's turn after some partitions."""
    broker, body = request.broker, request.body
    by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    context = await broker.fetch_sessions.open_large(
        body, uses_topic_ids=by_id, now=broker.clock.monotonic()
    )
    if broker.fetch_sessions.discarded:
        _discard(broker)
    large = LargeFetch(request, Fetch(broker, body, context, uses_topic_ids=by_id))
    await large.begin()
    return large.pending


def _answer_later(request: Request[FetchRequest], fetch: Fetch) -> Pending:
    """There is no place to wait. With an answer at once its client would ask without a pause."""
    pending = Pending()
    parts = request.encode(fetch)
    delay = min(request.body.max_wait_ms / 1000, WITHOUT_PLACE_S)
    timer = request.broker.clock.call_later(delay, lambda: pending.complete(parts))
    pending.on_abandoned = timer.cancel
    return pending


def _park(request: Request[FetchRequest], fetch: Fetch, waiting: Waiting) -> Pending:
    body = request.body
    pending = Pending()

    def attempt(final: bool) -> int | None:
        try:
            settled = fetch.read()
            if not (final or settled or fetch.size >= body.min_bytes or fetch.lags()):
                return fetch.size
            parts = request.encode(fetch)
        except Exception as error:
            waiting.end()
            pending.complete(request.fail(error))
            return None
        waiting.end()
        pending.complete(parts)
        return None

    parked = ParkedFetch(
        request.broker.clock,
        fetch.local_partitions(),
        min_bytes=body.min_bytes,
        available=fetch.size,
        max_wait_ms=body.max_wait_ms,
        attempt=attempt,
        as_follower=body.replica_id >= 0,
    )

    def abandon() -> None:
        waiting.end()
        parked.cancel()

    pending.on_abandoned = abandon
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

    __slots__ = (
        "_body",
        "_broker",
        "_context",
        "_has_failed",
        "_reads",
        "_unknown",
        "_uses_topic_ids",
        "size",
    )

    def __init__(
        self, broker: Broker, body: FetchRequest, context: FetchContext, *, uses_topic_ids: bool
    ) -> None:
        self._broker = broker
        self._body = body
        self._context = context
        self._uses_topic_ids = uses_topic_ids
        self._reads: Reads = []
        self._unknown = 0
        self._has_failed = False
        self.size = 0
        """Bytes of records that were read."""

    @property
    def partition_count(self) -> int:
        return len(self._context.partitions)

    def read(self) -> bool:
        """See what is there. Returns whether waiting would be pointless."""
        self.forget()
        self._read_some(self._context.partitions)
        return self._is_settled

    async def read_in_turns(self, parked: ParkedFetch | None) -> bool:
        """As ``read``, also if the fetch ``lags``. Whoever is ``parked`` is told of everything that
        comes after a partition was read.
        """
        self.forget()
        lags = False
        partitions = self._context.partitions
        for start in range(0, len(partitions), PARTITIONS_PER_TURN):
            some = partitions[start : start + PARTITIONS_PER_TURN]
            if parked is not None:
                for partition in self._local(some):
                    parked.watch(partition)
            self._read_some(some)
            lags = lags or self._lag(self._reads[start:])
            await others_turn()
        return lags or self._is_settled

    def forget(self) -> None:
        """What was read is not answered."""
        self._reads = []
        self.size = self._unknown = 0
        self._has_failed = self._context.error != 0

    def end(self) -> list[list[Any]]:
        """It is answered, and holds on to nothing. Returns what it held."""
        context, self._context = self._context, FetchContext()
        if context.session is None:
            context.known.clear()
        return [self._reads, context.partitions]

    @property
    def _is_settled(self) -> bool:
        return self._has_failed or self._unknown == len(self._reads)

    def _read_some(self, partitions: list[SessionPartition]) -> None:
        room = min(self._body.max_bytes, self._broker.config.fetch_max_bytes)
        reads = self._reads
        total = self.size
        for wanted in partitions:
            answer = wanted.last_answer() or self._read_partition(
                wanted, room - total, first=total == 0
            )
            reads.append((wanted, answer))
            if isinstance(answer.records, FileSlice):
                total += answer.records.size
            elif answer.error_code in UNKNOWN:
                self._unknown += 1
            elif answer.error_code or answer.diverging_epoch is not None:
                self._has_failed = True
        self.size = total

    def _read_partition(
        self, wanted: SessionPartition, room: int, *, first: bool
    ) -> FetchedPartition:
        index = wanted.key[2]
        try:
            partition = self._partition(wanted)
            read = partition.read(
                wanted.fetch_offset,
                max(min(wanted.max_bytes, room), 0),
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                committed_only=self._body.isolation_level == READ_COMMITTED,
                follower_id=self._body.replica_id,
                min_one_batch=first,
            )
        except KafkaError as error:
            if error.code not in EXPECTED_OF_CONSUMERS:
                self._broker.traffic.failed_fetches += 1
            return _failed(index, error)
        answer = FetchedPartition(
            index,
            0,
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset,
            read.aborted,
            -1,
            read.records or NO_RECORDS,
            read.diverging_epoch,
        )
        if wanted.fetch_offset >= read.high_watermark == read.last_stable_offset and (
            wanted.last_fetched_epoch < 0 and self._body.replica_id < 0
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
        return self._lag(self._reads)

    def _lag(self, reads: Reads) -> bool:
        for wanted, answer in reads:
            if isinstance(answer.records, FileSlice):
                offset, end = wanted.fetch_offset, answer.high_watermark
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
        return self._local(self._context.partitions)

    def _local(self, wanted: Iterable[SessionPartition]) -> list[Partition]:
        found = []
        for one in wanted:
            name, topic_id, index = one.key
            if name is None:
                topic = self._broker.metadata.topics_by_id.get(topic_id) if topic_id else None
                if topic is None:
                    continue
                name = topic.name
            partitions = self._broker.replicas.topics.get(name)
            partition = partitions.get(index) if partitions is not None else None
            if partition is not None:
                found.append(partition)
        return found

    def told(self, throttle_ms: int) -> Response:
        """Returns the answer; to a client that has to hold back it has no partitions (KIP-219)."""
        topics: Gathered = []
        if not throttle_ms:
            self._begin_telling()
            _gather(topics, self._context.select(self._reads))
        return Response(self._context.error, self._context.session_id, topics)

    async def told_in_turns(self, throttle_ms: int) -> Response:
        topics: Gathered = []
        if not throttle_ms:
            self._begin_telling()
            for start in range(0, len(self._reads), PARTITIONS_PER_TURN):
                some = self._reads[start : start + PARTITIONS_PER_TURN]
                _gather(topics, self._context.select(some))
                await others_turn()
        return Response(self._context.error, self._context.session_id, topics)

    def _begin_telling(self) -> None:
        broker, context = self._broker, self._context
        is_follower = self._body.replica_id >= 0
        if context.starts_session:
            broker.fetch_sessions.start(
                context,
                uses_topic_ids=self._uses_topic_ids,
                now=broker.clock.monotonic(),
                is_privileged=is_follower,
            )
        traffic = broker.traffic
        traffic.fetched_partitions += len(self._reads)
        if is_follower:
            traffic.replication_bytes_out += self.size
        else:
            traffic.bytes_out += self.size


def _gather(topics: Gathered, reads: Reads) -> None:
    """Add partitions to their topics, in their order."""
    current: tuple[str | None, UUID | None] | None = None
    partitions: list[FetchedPartition] = []
    if topics:
        last_name, last_id, partitions = topics[-1]
        current = (last_name, last_id)
    for wanted, partition in reads:
        name, topic_id, _ = wanted.key
        if (name, topic_id) != current:
            current = (name, topic_id)
            partitions = []
            topics.append((name, topic_id, partitions))
        partitions.append(partition)


class LargeFetch:
    """A fetch of so many partitions that others would have to wait for it: it is read, and its
    answer is made, some partitions at a time.
    """

    __slots__ = (
        "_deadline",
        "_fetch",
        "_is_final",
        "_parked",
        "_request",
        "_waiting",
        "_woken",
        "pending",
    )

    def __init__(self, request: Request[FetchRequest], fetch: Fetch) -> None:
        self._request = request
        self._fetch = fetch
        self._parked: ParkedFetch | None = None
        self._waiting: Waiting | None = None
        self._woken = asyncio.Event()
        self._is_final = False
        """There is nothing more to wait for."""
        self._deadline = 0.0
        self.pending = Pending()
        self.pending.on_abandoned = self._abandon

    async def begin(self) -> None:
        """Answer, or wait until that is possible."""
        request = self._request
        broker, body = request.broker, request.body
        try:
            if body.max_wait_ms > 0 and are_legal(body):
                self._waiting = broker.fetch_sessions.wait(self._fetch.partition_count)
                self._deadline = broker.clock.monotonic() + body.max_wait_ms / 1000
            with YoungObjectsOnly():
                if await self._is_enough():
                    if body.max_wait_ms > 0 and self._waiting is None:
                        await self._pause()
                    await self._answer()
                    return
        except Exception as error:
            self._fail(error)
            return
        wanted, body.topics, body.forgotten = body.topics, [], []
        broker.tasks.spawn(_let_go([topic.partitions for topic in wanted]))
        broker.tasks.spawn(request.timed(self._go_on()))

    async def _go_on(self) -> None:
        try:
            while True:
                await self._woken.wait()
                if self.pending.abandoned:
                    self._complete(None)
                    return
                with YoungObjectsOnly():
                    if await self._is_enough():
                        await self._answer()
                        return
        except Exception as error:
            self._fail(error)

    async def _is_enough(self) -> bool:
        """Read. Returns whether it is time to answer; if not, somebody will wake this fetch."""
        request, fetch = self._request, self._fetch
        broker, body = request.broker, request.body
        parked: ParkedFetch | None = None
        if self._waiting is not None and not self._is_final:
            self._woken.clear()
            left = max(self._deadline - broker.clock.monotonic(), 0.0)
            parked = self._parked = ParkedFetch(
                broker.clock,
                (),
                min_bytes=body.min_bytes,
                available=0,
                max_wait_ms=int(left * 1000),
                attempt=self._wake,
                as_follower=body.replica_id >= 0,
            )
        settled = await fetch.read_in_turns(parked)
        if parked is None or settled or fetch.size >= body.min_bytes:
            self._leave()
            return True
        size = fetch.size
        fetch.forget()
        if not self._woken.is_set():
            parked.progress(size)
        return False

    def _wake(self, is_final: bool) -> int | None:
        self._is_final = self._is_final or is_final
        self._woken.set()
        return None

    def _leave(self) -> None:
        if self._parked is not None:
            self._parked.cancel()
        if self._waiting is not None:
            self._waiting.end()

    def _abandon(self) -> None:
        """The client is gone; what is under way comes to its end, which nobody hears of."""
        self._leave()
        self._wake(True)

    async def _pause(self) -> None:
        """See ``_answer_later``."""
        delay = min(self._request.body.max_wait_ms / 1000, WITHOUT_PLACE_S)
        timer = self._request.broker.clock.call_later(delay, self._woken.set)
        await self._woken.wait()
        timer.cancel()

    async def _answer(self) -> None:
        if self.pending.abandoned:
            self._complete(None)
            return
        request = self._request
        request.charge(self._fetch)
        response = await self._fetch.told_in_turns(request.throttle_ms)
        head = fetch_response_head(
            request.version,
            request.header.correlation_id,
            request.throttle_ms,
            response.error_code,
            response.session_id,
        )
        writer = FetchResponseWriter(request.version, head, len(response.topics))
        size = 0
        for name, topic_id, partitions in response.topics:
            writer.begin_topic(name, topic_id, len(partitions))
            for start in range(0, len(partitions), PARTITIONS_PER_TURN):
                some = partitions[start : start + PARTITIONS_PER_TURN]
                writer.put(some)
                size += len(some)
                if size >= PARTITIONS_PER_TURN:
                    size = 0
                    await others_turn()
            writer.end_topic()
        self._complete(writer.end())

    def _fail(self, error: Exception) -> None:
        self._leave()
        self._complete(self._request.fail(error))

    def _complete(self, parts: Sequence[Part] | None) -> None:
        """Answer; and nothing is left that refers to each other: it is too much to wait for the
        garbage collector.
        """
        self.pending.on_abandoned = None
        self.pending.complete(parts)
        self._parked = None
        request, fetch = self._request, self._fetch
        wanted, request.body.topics = request.body.topics, []
        request.broker.tasks.spawn(_let_go([*(topic.partitions for topic in wanted), *fetch.end()]))


def _discard(broker: Broker) -> None:
    sessions = broker.fetch_sessions
    discarded, sessions.discarded = sessions.discarded, []
    broker.tasks.spawn(_empty(discarded))


async def _empty(maps: list[PartitionMap]) -> None:
    """As ``_let_go``."""
    for partitions in maps:
        while partitions:
            for _ in range(min(PARTITIONS_PER_TURN, len(partitions))):
                partitions.popitem()
            await others_turn()


async def _let_go(lists: list[list[Any]]) -> None:
    """Free some items at a time: for hundreds of thousands that takes long, too."""
    for items in lists:
        while items:
            del items[-PARTITIONS_PER_TURN:]
            await others_turn()
