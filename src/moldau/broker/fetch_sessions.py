"""Incremental fetch sessions (KIP-227): a client names its partitions once, then what changes.

A request's session id and epoch say what it is: no session at all (epoch -1 with id 0), the start
of one (epoch 0), the next step of one (epoch n), or its end (epoch -1 with its id).
``FetchSessions.open`` turns a request into a ``FetchContext``: which partitions to read, and which
of the answers are worth sending. A new session starts with its first answer (``start``): a client
that is told nothing takes no place from others.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.replication import Partition
from moldau.wire.fetch import FetchedPartition, FetchPartition, FetchRequest

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1

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
        "key",
        "told_high_watermark",
        "told_log_start",
        "want",
    )

    def __init__(self, key: PartitionKey, want: FetchPartition) -> None:
        self.key = key
        self.want = want
        self.told_high_watermark = -1
        self.told_log_start = -1
        self._partition: Partition | None = None
        self._leader_epoch = -1
        self._last: FetchedPartition

    def change(self, want: FetchPartition) -> None:
        """The client wants something else of this partition from now on."""
        self.want = want
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


class FetchSession:
    """The partitions of one client, in the order in which they are read."""

    __slots__ = ("epoch", "last_used", "partitions", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = INITIAL_EPOCH
        self.last_used = now
        self.partitions: dict[PartitionKey, SessionPartition] = {}

    def update(self, request: FetchRequest) -> None:
        for topic in request.topics:
            for want in topic.partitions:
                key = (topic.name, topic.topic_id, want.partition)
                known = self.partitions.get(key)
                if known is None:
                    self.partitions[key] = SessionPartition(key, want)
                else:
                    known.change(want)
        for name, topic_id, indexes in request.forgotten:
            for index in indexes:
                self.partitions.pop((name, topic_id, index), None)

    def move_to_end(self, keys: Iterable[PartitionKey]) -> None:
        """Partitions that just had data are read last next time, so that none starves."""
        for key in keys:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                self.partitions[key] = partition


class FetchContext:
    """One fetch request resolved against its session."""

    __slots__ = ("_incremental", "_session", "error", "partitions", "starts_session")

    def __init__(
        self,
        partitions: list[SessionPartition],
        session: FetchSession | None = None,
        *,
        incremental: bool = False,
        starts_session: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.partitions = partitions
        self.error = error
        self._session = session
        self._incremental = incremental
        self.starts_session = starts_session
        """Its answer is the first of a session, if there is room for one."""

    @property
    def session_id(self) -> int:
        return self._session.session_id if self._session is not None else NO_SESSION

    def bind(self, session: FetchSession) -> None:
        """The session has these partitions from now on."""
        self._session = session
        session.partitions = {partition.key: partition for partition in self.partitions}

    def select(
        self, answers: Iterable[tuple[SessionPartition, FetchedPartition]]
    ) -> list[tuple[SessionPartition, FetchedPartition]]:
        """Returns the answers to send, noting in the session what the client now knows."""
        if self._session is None:
            return list(answers)
        chosen = []
        for partition, answer in answers:
            if partition.is_news(answer) or not self._incremental:
                chosen.append((partition, answer))
        if self._incremental:
            self._session.move_to_end(p.key for p, answer in chosen if answer.records)
        return chosen


class FetchSessions:
    """The cache of sessions: bounded, oldest out when it is idle for long enough."""

    def __init__(self, slots: int, eviction_ms: int, *, randomness: random.Random) -> None:
        self._slots = slots
        self._eviction = eviction_ms / 1000
        self._random = randomness
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, *, uses_topic_ids: bool, now: float) -> FetchContext:
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            return _full_context(request)
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchContext([])
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used = now
        self._sessions.move_to_end(session.session_id)
        return FetchContext(list(session.partitions.values()), session, incremental=True)

    def start(self, context: FetchContext, *, uses_topic_ids: bool, now: float) -> None:
        """Create the session that a request asks for, unless there is no room."""
        session = self._create(uses_topic_ids, now)
        if session is not None:
            context.bind(session)

    def _create(self, uses_topic_ids: bool, now: float) -> FetchSession | None:
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.last_used < self._eviction:
                return None
            del self._sessions[oldest.session_id]
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(session_id, uses_topic_ids, now)
        session.epoch = INITIAL_EPOCH + 1
        self._sessions[session_id] = session
        return session


def _full_context(request: FetchRequest) -> FetchContext:
    partitions = [
        SessionPartition((topic.name, topic.topic_id, want.partition), want)
        for topic in request.topics
        for want in topic.partitions
    ]
    if request.session_epoch == FINAL_EPOCH or not request.topics:
        return FetchContext(partitions)
    # In a session a partition is once, as it was last asked for.
    distinct = {partition.key: partition for partition in partitions}
    return FetchContext(list(distinct.values()), starts_session=True)
