"""Incremental fetch sessions (KIP-227): a broker is told only what changed since the last fetch."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The session with one broker; one fetch at a time."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self._epoch = FULL_EPOCH
        self._known: dict[TopicPartition, PartitionFetch] = {}
        self._names: dict[UUID, str] = {}

    def next_fetch(self, wanted: Mapping[TopicPartition, PartitionFetch]) -> SessionFetch:
        """Returns the request for these partitions and no others."""
        known = self._known if self._epoch != FULL_EPOCH else {}
        changed = {key: fetch for key, fetch in wanted.items() if known.get(key) != fetch}
        gone = {
            key: fetch
            for key, fetch in known.items()
            if key not in wanted or wanted[key].topic_id != fetch.topic_id
        }
        self._known = dict(wanted)
        self._names |= {fetch.topic_id: key.topic for key, fetch in wanted.items()}
        return SessionFetch(self.session_id, self._epoch, by_topic(changed), _forgotten(gone))

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


def _forgotten(gone: Mapping[TopicPartition, PartitionFetch]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for (name, number), fetch in gone.items():
        topics.setdefault((name, fetch.topic_id), []).append(number)
    return [(name, topic_id, numbers) for (name, topic_id), numbers in topics.items()]
