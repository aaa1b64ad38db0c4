"""Incremental fetch sessions (KIP-227): a client names its partitions once, then what changes.

A request's session id and epoch say what it is: no session at all (epoch -1 with id 0), the start
of one (epoch 0), the next step of one (epoch n), or its end (epoch -1 with its id).
``FetchSessions.open`` turns a request into a ``FetchContext``: which partitions to read, and which
of the answers are worth sending. A new session starts with its first answer (``start``): a client
that is told nothing takes no place from others.

What clients can make the broker keep is bounded: the number of sessions, the partitions of all of
them together, and those of all fetches that wait for data.
"""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from moldau.broker.turns import others_turn
from moldau.errors import ErrorCode
from moldau.model import MAX_TOPIC_NAME_LENGTH
from moldau.replication import Partition
from moldau.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
_CHANGING: Final = -2
"""The epoch of a session while its partitions are being changed: no request is the next one."""

PARTITIONS_PER_SLOT: Final = 200
"""So many partitions sessions may have on average. One takes about 320 bytes, and 400 more if its
topic has the longest of names.
"""
MOST_WAITING: Final = 200_000
"""Partitions of all fetches that wait for data. Those with more than ``LARGE_FETCH`` may take half
of it, so that a few of them leave room for everybody else.
"""
LARGE_FETCH: Final = 1000
"""Partitions of a fetch that is not read and answered in one turn of the event loop."""
PARTITIONS_PER_TURN: Final = 500
WITHOUT_PLACE_S: Final = 0.1
"""How long a fetch takes that may not wait: its client asks again at once."""
_LOOKS_AGAIN_AFTER_S: Final = 1.0
"""A full cache is searched for a session to evict at most so often."""

PartitionKey = tuple[str | None, UUID | None, int]
"""Topic name (up to Fetch v12) or id (from v13 on), and partition."""


class SessionPartition:
    """One partition of a fetch: what the client wants, what it was last told, and the last answer
    if the client was at the end: as long as nothing comes, a look at the partition is enough.
    """

    __slots__ = (
        "_last",
        "_leader_epoch",
        "_partition",
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "told_high_watermark",
        "told_log_start",
    )

    def __init__(self, key: PartitionKey, want: FetchPartition) -> None:
        self.key = key
        self.told_high_watermark = -1
        self.told_log_start = -1
        self._partition: Partition | None = None
        self._leader_epoch = -1
        self._last: FetchedPartition
        self.current_leader_epoch = want.current_leader_epoch
        self.fetch_offset = want.fetch_offset
        self.last_fetched_epoch = want.last_fetched_epoch
        self.log_start_offset = want.log_start_offset
        self.max_bytes = want.max_bytes

    def change(self, want: FetchPartition) -> None:
        """The client wants something else of this partition from now on."""
        self.current_leader_epoch = want.current_leader_epoch
        self.fetch_offset = want.fetch_offset
        self.last_fetched_epoch = want.last_fetched_epoch
        self.log_start_offset = want.log_start_offset
        self.max_bytes = want.max_bytes
        self._partition = None

    def remember(self, partition: Partition, answer: FetchedPartition) -> None:
        """The client is at the end of the partition, and this is all that there is to say."""
        self._partition, self._leader_epoch = partition, partition.leader_epoch
        self._last = answer

    def last_answer(self) -> FetchedPartition | None:
        """Returns the answer that was remembered if the partition is still as it was then."""
        partition = self._partition
        if partition is None:
            return None
        last = self._last
        if (
            partition.high_watermark != last.high_watermark
            or partition.leader_epoch != self._leader_epoch
            or partition.leader_id != partition.local_id
            or partition.log.log_start_offset != last.log_start_offset
            or partition.log.failure is not None
        ):
            self._partition = None
            return None
        return last

    def is_news(self, answer: FetchedPartition) -> bool:
        """Returns whether an incremental answer must carry this partition; remembers what is
        told.
        """
        news = (
            answer.error_code != 0
            or bool(answer.records)
            or answer.diverging_epoch is not None
            or answer.high_watermark != self.told_high_watermark
            or answer.log_start_offset != self.told_log_start
        )
        if answer.error_code:
            # After an error the next good answer is news again.
            self.told_high_watermark = -1
        else:
            self.told_high_watermark = answer.high_watermark
        self.told_log_start = answer.log_start_offset
        return news


PartitionMap = dict[PartitionKey, SessionPartition]


class FetchSession:
    """The partitions of one client, in the order in which they are read."""

    __slots__ = (
        "counted",
        "created",
        "epoch",
        "is_privileged",
        "last_used",
        "partitions",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: PartitionMap,
        now: float,
        *,
        uses_topic_ids: bool,
        is_privileged: bool,
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.is_privileged = is_privileged
        """It is a follower's."""
        self.epoch = INITIAL_EPOCH + 1
        self.created = now
        self.last_used = now
        self.counted = len(partitions)
        """How many partitions the cache knows of."""

    def move_to_end(self, keys: Iterable[PartitionKey]) -> None:
        """Partitions that just had data are read last next time, so that none starves."""
        for key in keys:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                self.partitions[key] = partition


class FetchContext:
    """One fetch request resolved against its session."""

    __slots__ = ("error", "known", "partitions", "session", "starts_session")

    def __init__(
        self,
        session: FetchSession | None = None,
        *,
        starts_session: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.error = error
        self.session = session
        self.starts_session = starts_session
        """Its answer is the first of a session, if there is room for one."""
        self.known: PartitionMap = {} if session is None else session.partitions
        self.partitions: list[SessionPartition] = []
        """What is to be read."""

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else NO_SESSION

    def select(
        self, answers: Iterable[tuple[SessionPartition, FetchedPartition]]
    ) -> list[tuple[SessionPartition, FetchedPartition]]:
        """Returns the answers to send, noting in the session what the client now knows."""
        session = self.session
        if session is None:
            return list(answers)
        chosen = []
        for partition, answer in answers:
            if partition.is_news(answer) or self.starts_session:
                chosen.append((partition, answer))
        if not self.starts_session:
            session.move_to_end(p.key for p, answer in chosen if answer.records)
        return chosen


class Waiting:
    """The place of a fetch among those that wait for data."""

    __slots__ = ("_sessions", "_size")

    def __init__(self, sessions: FetchSessions, size: int) -> None:
        self._sessions = sessions
        self._size = size
        sessions.waiting += size

    def end(self) -> None:
        """May be called again."""
        self._sessions.waiting -= self._size
        self._size = 0


class FetchSessions:
    """The cache of sessions, bounded in their number and in that of their partitions.

    Who makes room for a new session is as in Kafka: one that was not used for long; one of a
    consumer for one of a follower; the smallest of those that have lived for long for a larger one.
    For more partitions it is only the first two: a large session is not worth several small ones.
    """

    def __init__(self, slots: int, eviction_ms: int, *, randomness: random.Random) -> None:
        self._slots = slots
        self._most_partitions = slots * PARTITIONS_PER_SLOT
        self._eviction = eviction_ms / 1000
        self._random = randomness
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._full_until = 0.0
        self.partitions = 0
        """Those of all sessions."""
        self.waiting = 0
        """Those of all fetches that wait for data."""
        self.discarded: list[list[SessionPartition]] = []
        """Those of large sessions that have ended: to free them takes long, too."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, *, uses_topic_ids: bool, now: float) -> FetchContext:
        if request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION:
            topics = request.topics
            if len(topics) == 1 and len(topics[0].partitions) == 1:  # as many clients ask
                return _of_one(topics[0])
        context = self._begin(request, uses_topic_ids, now)
        if context.error:
            return context
        for topic in request.topics:
            _take(context, topic.name, topic.topic_id, topic.partitions)
        if context.session is not None:
            for name, topic_id, indexes in request.forgotten:
                _forget(context.known, name, topic_id, indexes)
        self._settle(context, request, now)
        return context

    async def open_large(
        self, request: FetchRequest, *, uses_topic_ids: bool, now: float
    ) -> FetchContext:
        """As ``open``, with everybody else's turn after some partitions."""
        context = self._begin(request, uses_topic_ids, now)
        if context.error:
            return context
        size = 0
        for topic in request.topics:
            for start in range(0, len(topic.partitions), PARTITIONS_PER_TURN):
                part = topic.partitions[start : start + PARTITIONS_PER_TURN]
                _take(context, topic.name, topic.topic_id, part)
                size += len(part)
                if size >= PARTITIONS_PER_TURN:
                    size = 0
                    await others_turn()
        for name, topic_id, indexes in request.forgotten if context.session is not None else ():
            for start in range(0, len(indexes), PARTITIONS_PER_TURN):
                some = indexes[start : start + PARTITIONS_PER_TURN]
                _forget(context.known, name, topic_id, some)
                size += len(some)
                if size >= PARTITIONS_PER_TURN:
                    size = 0
                    await others_turn()
        self._settle(context, request, now)
        return context

    def start(
        self,
        context: FetchContext,
        *,
        uses_topic_ids: bool,
        now: float,
        is_privileged: bool = False,
    ) -> None:
        """Create the session that a request asks for, unless there is no room."""
        size = len(context.known)
        if not self._has_room(size, is_privileged, now):
            return
        if not self._has_slot(size, is_privileged, now):
            return
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = self._sessions[session_id] = FetchSession(
            session_id,
            context.known,
            now,
            uses_topic_ids=uses_topic_ids,
            is_privileged=is_privileged,
        )
        self.partitions += size
        context.session = session

    def wait(self, size: int) -> Waiting | None:
        """Returns the place of a fetch of so many partitions; None if too many wait already."""
        most = MOST_WAITING if size <= LARGE_FETCH else MOST_WAITING // 2
        return None if self.waiting + size > most else Waiting(self, size)

    def _begin(self, request: FetchRequest, uses_topic_ids: bool, now: float) -> FetchContext:
        epoch = request.session_epoch
        session = self._sessions.get(request.session_id)
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session is not None:
                self._remove(session)
            starts = epoch == INITIAL_EPOCH and bool(request.topics)
            return FetchContext(starts_session=starts and are_legal(request))
        if session is None:
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch or epoch < 0:
            return FetchContext(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if not are_legal(request):
            self._remove(session)
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = _CHANGING
        session.last_used = now
        self._sessions.move_to_end(session.session_id)
        return FetchContext(session)

    def _settle(self, context: FetchContext, request: FetchRequest, now: float) -> None:
        """The partitions are those that the request wants."""
        session = context.session
        if session is not None:
            if self._sessions.get(session.session_id) is not session:  # evicted meanwhile
                context.session, context.error = None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                return
            added = len(session.partitions) - session.counted
            if added > 0 and not self._has_room(added, session.is_privileged, now):
                self._remove(session)
                context.session, context.error = None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                return
            session.counted += added
            self.partitions += added
            if not session.partitions:
                self._remove(session)
                context.session = None
            session.epoch = 1 if request.session_epoch == MAX_EPOCH else request.session_epoch + 1
        context.partitions = list(context.known.values())

    def _remove(self, session: FetchSession) -> None:
        self.partitions -= session.counted
        del self._sessions[session.session_id]
        if session.counted > PARTITIONS_PER_TURN:
            self.discarded.append(list(session.partitions.values()))
            session.partitions.clear()

    def _has_slot(self, size: int, is_privileged: bool, now: float) -> bool:
        """Returns whether there is a place for one more session, after making it if need be."""
        if len(self._sessions) < self._slots:
            return True
        evicted = self._unused(now)
        if evicted is None:
            if now < self._full_until and not is_privileged:
                return False
            evicted = self._smaller(size, is_privileged, now)
            if evicted is None:
                self._full_until = now + _LOOKS_AGAIN_AFTER_S
                return False
        self._remove(evicted)
        return True

    def _has_room(self, size: int, is_privileged: bool, now: float) -> bool:
        """Returns whether sessions may have so many partitions more, after making room for them."""
        if size > self._most_partitions:
            return False
        while self.partitions + size > self._most_partitions:
            evicted = self._unused(now)
            if evicted is None and is_privileged:
                evicted = self._largest_of_a_consumer()
            if evicted is None:
                return False
            self._remove(evicted)
        return True

    def _unused(self, now: float) -> FetchSession | None:
        """Returns the session that was used longest ago, if that is long ago."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used < self._eviction:
            return None
        return oldest

    def _smaller(self, size: int, is_privileged: bool, now: float) -> FetchSession | None:
        """Returns the session that is worth least, if it is worth less than one of this size."""
        least: FetchSession | None = None
        for session in self._sessions.values():
            if now - session.created < self._eviction and (
                session.is_privileged or not is_privileged
            ):
                continue
            if least is None or _worth(session) < _worth(least):
                least = session
        return least if least is not None and _worth(least) < (is_privileged, size) else None

    def _largest_of_a_consumer(self) -> FetchSession | None:
        largest: FetchSession | None = None
        for session in self._sessions.values():
            if not session.is_privileged and (largest is None or session.counted > largest.counted):
                largest = session
        return largest


def _worth(session: FetchSession) -> tuple[bool, int]:
    return session.is_privileged, session.counted


def _of_one(topic: FetchTopic) -> FetchContext:
    want = topic.partitions[0]
    context = FetchContext()
    context.partitions = [
        SessionPartition((topic.name, topic.topic_id, want.partition), want),
    ]
    return context


def are_legal(request: FetchRequest) -> bool:
    """Returns whether all topics could exist: longer names are not kept beyond their request."""
    for topic in request.topics:
        if topic.name is not None and len(topic.name) > MAX_TOPIC_NAME_LENGTH:
            return False
    return True


def _take(
    context: FetchContext,
    name: str | None,
    topic_id: UUID | None,
    partitions: list[FetchPartition],
) -> None:
    """Note what a request wants of partitions; each is once, as it was last asked for."""
    known = context.known
    is_shared = name is None or (context.session is None and not context.starts_session)
    for want in partitions:
        key = (name, topic_id, want.partition)
        partition = known.get(key)
        if partition is not None:
            partition.change(want)
            continue
        if name is not None and not is_shared:
            name = sys.intern(name)  # one for all sessions
            is_shared = True
            key = (name, topic_id, want.partition)
        known[key] = SessionPartition(key, want)


def _forget(
    known: PartitionMap, name: str | None, topic_id: UUID | None, indexes: list[int]
) -> None:
    for index in indexes:
        known.pop((name, topic_id, index), None)
