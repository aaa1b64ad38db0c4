"""Incremental fetch sessions (KIP-227): a broker is told only what changed since the last fetch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.wire.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION = 0
FULL_EPOCH = 0
_MAX_EPOCH = 2**31 - 1


class Wanted(NamedTuple):
    """What a fetch asks of one partition."""

    topic_id: UUID
    offset: int
    leader_epoch: int
    max_bytes: int

    def fetch(self, partition: int) -> FetchPartition:
        return FetchPartition(
            partition=partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            max_bytes=self.max_bytes,
        )


class SessionFetch(NamedTuple):
    """The parts of a Fetch request that depend on the session."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """The session with one broker; one fetch at a time."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self._epoch = FULL_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}
        self._names: dict[UUID, str] = {}

    def next_fetch(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionFetch:
        """The request for these partitions and no others."""
        known = self._known if self._epoch != FULL_EPOCH else {}
        changed = {key: one for key, one in wanted.items() if known.get(key) != one}
        gone = {
            key: one
            for key, one in known.items()
            if key not in wanted or wanted[key].topic_id != one.topic_id
        }
        self._known = dict(wanted)
        self._names |= {one.topic_id: key.topic for key, one in wanted.items()}
        return SessionFetch(self.session_id, self._epoch, _topics(changed), _forgotten(gone))

    def topic_name(self, topic_id: UUID) -> str:
        """Brokers answer with ids; a topic that was forgotten meanwhile may still be answered."""
        return self._names.get(topic_id, "")

    def answered(self, error_code: int, session_id: int) -> None:
        """Success continues the session; any error starts a new one with the next fetch."""
        if error_code != ErrorCode.NONE:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self._epoch = FULL_EPOCH
        elif session_id == NO_SESSION:  # a broker without room for sessions, or an old one
            self.session_id, self._epoch = NO_SESSION, FULL_EPOCH
        else:
            self.session_id = session_id
            self._epoch = 1 if self._epoch in (FULL_EPOCH, _MAX_EPOCH) else self._epoch + 1

    def failed(self) -> None:
        """No answer: the broker may or may not have seen the request, so begin anew."""
        self._epoch = FULL_EPOCH


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, number), one in wanted.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(name, one.topic_id, [])
        topic.partitions.append(one.fetch(number))
    return list(topics.values())


def _forgotten(gone: Mapping[TopicPartition, Wanted]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for (name, number), one in gone.items():
        topics.setdefault((name, one.topic_id), []).append(number)
    return [(name, topic_id, numbers) for (name, topic_id), numbers in topics.items()]
