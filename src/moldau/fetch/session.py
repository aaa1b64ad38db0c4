"""Incremental fetch sessions (KIP-227): a broker is told only what changed since the last fetch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.fetch.request import (
    FULL_EPOCH,
    NO_SESSION,
    PartitionFetch,
    SessionFetch,
    by_topic,
)
from moldau.model import TopicPartition
from moldau.wire.fetch import ForgottenTopic

_MAX_EPOCH: Final = 2**31 - 1

_SESSION_ERRORS: Final = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}


class FetchSession:
    """The session with one broker; one fetch at a time.

    What is wanted is said before each fetch, all of it, by ``want_only``; or, where there are
    thousands of partitions and one is busy, by ``want`` and ``forget`` as it changes: then a fetch
    costs nothing for those that stay as they are.
    """

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self._epoch = FULL_EPOCH
        self._wanted: dict[TopicPartition, PartitionFetch] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._gone: dict[tuple[TopicPartition, UUID], None] = {}
        self._names: dict[UUID, str] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, key: TopicPartition, fetch: PartitionFetch) -> None:
        """Ask for this partition from the next fetch on."""
        known = self._wanted.get(key)
        if known == fetch:
            return
        if known is None or known.topic_id != fetch.topic_id:
            if known is not None:
                self._gone[key, known.topic_id] = None
            self._gone.pop((key, fetch.topic_id), None)
            self._names[fetch.topic_id] = key.topic
        self._wanted[key] = fetch
        self._changed[key] = None

    def forget(self, key: TopicPartition) -> None:
        """Ask for this partition no more."""
        known = self._wanted.pop(key, None)
        if known is not None:
            self._changed.pop(key, None)
            self._gone[key, known.topic_id] = None

    def want_only(self, wanted: Mapping[TopicPartition, PartitionFetch]) -> None:
        """Ask for these partitions and no others."""
        for key in [key for key in self._wanted if key not in wanted]:
            self.forget(key)
        for key, fetch in wanted.items():
            self.want(key, fetch)

    def next_fetch(self) -> SessionFetch:
        """Returns the request for what is wanted now."""
        wanted, changed, gone = self._wanted, self._changed, self._gone
        self._changed, self._gone = {}, {}
        if self._epoch == FULL_EPOCH:
            self._names = {fetch.topic_id: key.topic for key, fetch in wanted.items()}
            return SessionFetch(self.session_id, self._epoch, by_topic(wanted), [])
        return SessionFetch(
            self.session_id,
            self._epoch,
            by_topic({key: wanted[key] for key in changed}),
            _forgotten(gone),
        )

    @property
    def topic_names(self) -> Mapping[UUID, str]:
        """Brokers answer with ids; a topic that was forgotten meanwhile may still be answered."""
        return self._names

    def answered(self, error_code: int, session_id: int) -> bool:
        """Success continues the session; any error starts a new one with the next fetch.

        Returns whether the error was about the session only: then that fetch may follow at once.
        """
        if error_code != ErrorCode.NONE:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self._epoch = FULL_EPOCH
            return error_code in _SESSION_ERRORS
        if session_id == NO_SESSION:  # a broker without room for sessions, or an old one
            self.session_id, self._epoch = NO_SESSION, FULL_EPOCH
        else:
            self.session_id = session_id
            self._epoch = 1 if self._epoch in (FULL_EPOCH, _MAX_EPOCH) else self._epoch + 1
        return False

    def failed(self) -> None:
        """No answer: the broker may or may not have seen the request, so begin anew."""
        self._epoch = FULL_EPOCH


def _forgotten(gone: Iterable[tuple[TopicPartition, UUID]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for (name, number), topic_id in gone:
        topics.setdefault((name, topic_id), []).append(number)
    return [(name, topic_id, numbers) for (name, topic_id), numbers in topics.items()]
