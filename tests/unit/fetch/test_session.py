"""Sessions with a broker: what it is told, and when that begins anew."""

from __future__ import annotations

import uuid

import pytest

from moldau.errors import ErrorCode
from moldau.fetch import FetchSession, PartitionFetch
from moldau.model import TopicPartition

ID = uuid.uuid4()


def wanted(*offsets: int) -> dict[TopicPartition, PartitionFetch]:
    return {
        TopicPartition("t", number): PartitionFetch(ID, offset, 1000, 0)
        for number, offset in enumerate(offsets)
    }


def asked(session: FetchSession, want: dict[TopicPartition, PartitionFetch]):  # type: ignore[no-untyped-def]
    session.want_only(want)
    fetch = session.next_fetch()
    partitions = {p.partition: p.fetch_offset for topic in fetch.topics for p in topic.partitions}
    return fetch.session_id, fetch.epoch, partitions, [f[2] for f in fetch.forgotten]


def test_a_session_tells_what_has_changed() -> None:
    session = FetchSession()
    assert asked(session, wanted(0, 0)) == (0, 0, {0: 0, 1: 0}, [])
    session.answered(0, 77)
    assert asked(session, wanted(5, 0)) == (77, 1, {0: 5}, [])
    session.answered(0, 77)
    only_second = {TopicPartition("t", 1): PartitionFetch(ID, 0, 1000, 0)}
    assert asked(session, only_second) == (77, 2, {}, [[0]])
    session.answered(0, 77)
    assert asked(session, wanted(9, 0)) == (77, 3, {0: 9}, [])
    assert session.topic_names == {ID: "t"}


@pytest.mark.parametrize(
    ("code", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77),
        (None, 77),
    ],
)
def test_a_session_that_broke_begins_anew(code: ErrorCode | None, session_id: int) -> None:
    session = FetchSession()
    asked(session, wanted(0))
    session.answered(0, 77)
    asked(session, wanted(1))
    if code is None:
        session.failed()
    else:
        session.answered(code, 0)
    assert asked(session, wanted(1)) == (session_id, 0, {0: 1}, [])


def test_a_broker_without_sessions_is_told_everything_every_time() -> None:
    session = FetchSession()
    for _ in range(2):
        assert asked(session, wanted(3, 4)) == (0, 0, {0: 3, 1: 4}, [])
        session.answered(0, 0)
