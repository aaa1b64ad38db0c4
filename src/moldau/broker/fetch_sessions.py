"""Incremental fetch sessions (KIP-227): a client names its partitions once, then what changes.

A request's session id and epoch say what it is: no session at all (epoch -1 with id 0), the start
of one (epoch 0), the next step of one (epoch n), or its end (epoch -1 with its id).
``FetchSessions.open`` turns a request into a ``FetchContext``: which partitions to read, and which
of the answers are worth sending. A new session starts with its first answer (``start``): a client
that is told nothing takes no place from others.

What clients can make the broker keep is bounded: the number of sessions, the partitions of all of
them together, and those of all fetches that wait for data. Followers are brokers, and never refused
anything of that; their sessions look only at what has changed (``broker/follower_session.py``).
"""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from moldau.broker.fetch_session import (
    INITIAL_EPOCH,
    FetchSession,
    PartitionMap,
    SessionPartition,
)
from moldau.broker.follower_session import FollowerPartition, FollowerSession
from moldau.broker.turns import others_turn
from moldau.errors import ErrorCode
from moldau.model import MAX_TOPIC_NAME_LENGTH
from moldau.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
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


class FetchContext:
    """One fetch request resolved against its session."""

    __slots__ = ("error", "follower", "known", "partitions", "session", "starts_session")

    def __init__(
        self,
        session: FetchSession | None = None,
        *,
        starts_session: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.error = error
        self.session = session
        self.follower: FollowerSession | None = (
            session if isinstance(session, FollowerSession) else None
        )
        """The session, if it is a follower's."""
        self.starts_session = starts_session
        """Its answer is the first of a session, if there is room for one."""
        self.known: PartitionMap = {} if session is None else session.partitions
        self.partitions: list[SessionPartition] = []
        """What is to be read."""

    def look(self) -> None:
        """See what is to be read now: of a follower, what has changed."""
        if self.follower is not None:
            self.partitions = self.follower.awake_partitions()

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
        follower = self.follower
        for partition, answer in answers:
            if partition.is_news(answer) or self.starts_session:
                chosen.append((partition, answer))
            if follower is not None and isinstance(partition, FollowerPartition):
                follower.told(partition, answer)
        if not self.starts_session and follower is None:
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
    """The cache of sessions, those of consumers bounded in their number and in that of their
    partitions.

    Who makes room for a new session is as in Kafka: one that was not used for long; the smallest of
    those that have lived for long for a larger one. For more partitions it is only the first: a
    large session is not worth several small ones.
    """

    def __init__(self, slots: int, eviction_ms: int, *, randomness: random.Random) -> None:
        self._slots = slots
        self._most_partitions = slots * PARTITIONS_PER_SLOT
        self._eviction = eviction_ms / 1000
        self._random = randomness
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._followers: dict[int, FollowerSession] = {}
        self._full_until = 0.0
        self.partitions = 0
        """Those of all sessions of consumers."""
        self.waiting = 0
        """Those of all fetches that wait for data."""
        self.discarded: list[list[SessionPartition]] = []
        """Those of large sessions that have ended: to free them takes long, too."""

    def __len__(self) -> int:
        return len(self._sessions) + len(self._followers)

    def open(self, request: FetchRequest, *, uses_topic_ids: bool, now: float) -> FetchContext:
        if request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION:
            topics = request.topics
            if len(topics) == 1 and len(topics[0].partitions) == 1:  # as many clients ask
                return _of_one(topics[0])
        context = self._begin(request, uses_topic_ids, now)
        if context.error:
            return context
        for topic in request.topics:
            _take(context, topic.name, topic.topic_id, topic.partitions, request.replica_id)
        if context.session is not None:
            for name, topic_id, indexes in request.forgotten:
                _forget(context, name, topic_id, indexes)
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
                _take(context, topic.name, topic.topic_id, part, request.replica_id)
                size += len(part)
                if size >= PARTITIONS_PER_TURN:
                    size = 0
                    await others_turn()
        for name, topic_id, indexes in request.forgotten if context.session is not None else ():
            for start in range(0, len(indexes), PARTITIONS_PER_TURN):
                some = indexes[start : start + PARTITIONS_PER_TURN]
                _forget(context, name, topic_id, some)
                size += len(some)
                if size >= PARTITIONS_PER_TURN:
                    size = 0
                    await others_turn()
        self._settle(context, request, now)
        return context

    def start(
        self, context: FetchContext, *, uses_topic_ids: bool, now: float, replica_id: int = -1
    ) -> None:
        """Create the session that a request asks for, unless there is no room."""
        if replica_id >= 0:
            self._start_follower(context, uses_topic_ids, now, replica_id)
            return
        size = len(context.known)
        if not self._has_room(size, now):
            return
        if not self._has_slot(size, now):
            return
        session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(
            session_id, context.known, now, uses_topic_ids=uses_topic_ids
        )
        self.partitions += size
        context.session = session

    def _start_follower(
        self, context: FetchContext, uses_topic_ids: bool, now: float, replica_id: int
    ) -> None:
        for session in list(self._followers.values()):
            if now - session.last_used >= self._eviction:  # its broker has another one, or is gone
                self._remove(session)
        session_id = self._new_id()
        context.session = self._followers[session_id] = FollowerSession(
            session_id, context.known, now, uses_topic_ids=uses_topic_ids, replica_id=replica_id
        )

    def _new_id(self) -> int:
        session_id = NO_SESSION
        while self._find(session_id) is not None or session_id == NO_SESSION:
            session_id = self._random.randrange(1, 2**31)
        return session_id

    def _find(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id) or self._followers.get(session_id)

    def wait(self, size: int, replica_id: int = -1) -> Waiting | None:
        """Returns the place of a fetch of so many partitions; None if too many wait already."""
        if replica_id >= 0:
            return Waiting(self, 0)
        most = MOST_WAITING if size <= LARGE_FETCH else MOST_WAITING // 2
        return None if self.waiting + size > most else Waiting(self, size)

    def _begin(self, request: FetchRequest, uses_topic_ids: bool, now: float) -> FetchContext:
        epoch = request.session_epoch
        session = self._find(request.session_id)
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
        if session.session_id in self._sessions:
            self._sessions.move_to_end(session.session_id)
        return FetchContext(session)

    def _settle(self, context: FetchContext, request: FetchRequest, now: float) -> None:
        """The partitions are those that the request wants."""
        session = context.session
        if session is not None:
            if self._find(session.session_id) is not session:  # evicted meanwhile
                context.session, context.error = None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                return
            added = len(session.partitions) - session.counted
            if context.follower is None:
                if added > 0 and not self._has_room(added, now):
                    self._remove(session)
                    context.session, context.error = None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                    return
                self.partitions += added
            session.counted += added
            if not session.partitions:
                self._remove(session)
                context.session = context.follower = None
            session.epoch = 1 if request.session_epoch == MAX_EPOCH else request.session_epoch + 1
        if context.follower is not None:
            context.follower.asks(request.replica_epoch, now)
            context.look()
        else:
            context.partitions = list(context.known.values())

    def _remove(self, session: FetchSession) -> None:
        if isinstance(session, FollowerSession):
            del self._followers[session.session_id]
            session.end()
        else:
            del self._sessions[session.session_id]
            self.partitions -= session.counted
        if session.counted > PARTITIONS_PER_TURN:
            self.discarded.append(list(session.partitions.values()))
            session.partitions.clear()

    def _has_slot(self, size: int, now: float) -> bool:
        """Returns whether there is a place for one more session, after making it if need be."""
        if len(self._sessions) < self._slots:
            return True
        evicted = self._unused(now)
        if evicted is None:
            if now < self._full_until:
                return False
            evicted = self._smaller(size, now)
            if evicted is None:
                self._full_until = now + _LOOKS_AGAIN_AFTER_S
                return False
        self._remove(evicted)
        return True

    def _has_room(self, size: int, now: float) -> bool:
        """Returns whether sessions may have so many partitions more, after making room for them."""
        if size > self._most_partitions:
            return False
        while self.partitions + size > self._most_partitions:
            evicted = self._unused(now)
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

    def _smaller(self, size: int, now: float) -> FetchSession | None:
        """Returns the smallest session that has lived for long, if it is smaller than that."""
        least: FetchSession | None = None
        for session in self._sessions.values():
            if now - session.created >= self._eviction and (
                least is None or session.counted < least.counted
            ):
                least = session
        return least if least is not None and least.counted < size else None


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
    replica_id: int,
) -> None:
    """Note what a request wants of partitions; each is once, as it was last asked for."""
    known, follower = context.known, context.follower
    is_shared = name is None or (context.session is None and not context.starts_session)
    for want in partitions:
        key = (name, topic_id, want.partition)
        partition = known.get(key)
        if partition is not None:
            partition.change(want)
            if follower is not None:
                follower.wake(partition)
            continue
        if name is not None and not is_shared:
            name = sys.intern(name)  # one for all sessions
            is_shared = True
            key = (name, topic_id, want.partition)
        if replica_id >= 0:
            known[key] = partition = FollowerPartition(key, want)
            if follower is not None:
                follower.add(partition)
        else:
            known[key] = SessionPartition(key, want)


def _forget(
    context: FetchContext, name: str | None, topic_id: UUID | None, indexes: list[int]
) -> None:
    for index in indexes:
        partition = context.known.pop((name, topic_id, index), None)
        if partition is not None and context.follower is not None:
            context.follower.remove(partition)
