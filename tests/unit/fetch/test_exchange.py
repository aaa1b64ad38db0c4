"""Fetches by every kind of reader, through the codecs of both sides: no sockets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest
from tests.support.memory_network import as_bytes

from moldau.errors import ErrorCode
from moldau.fetch import (
    CONSUMER,
    FetchAnswer,
    FetchParams,
    FetchSession,
    PartitionFetch,
    fetch,
)
from moldau.model import Node, TopicPartition
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import ConnectionLostError
from moldau.wire.api import ApiKey
from moldau.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    decode_fetch_request,
    encode_fetch_response,
)
from moldau.wire.headers import read_request_header

ID = UUID(int=7)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
PARAMS = FetchParams(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20)

Reply = tuple[int, int, Sequence[FetchedPartition]]
"""Error code, session id and partitions of one answer."""


class Broker:
    """A connection whose other side answers as it is told, in one version of the API."""

    def __init__(self, *replies: Reply | Exception, version: int = 17) -> None:
        self._replies = list(replies)
        self._version = version
        self.requests: list[FetchRequest] = []
        self.waits: list[float | None] = []
        self.endpoints: list[Node] = []

    async def exchange(
        self,
        api: ApiKey,
        encode: Callable[[int, int, str], Sequence[bytes]],
        decode: Callable[[int, memoryview], Any],
        *,
        within: float | None = None,
    ) -> Any:
        assert api is ApiKey.FETCH
        frame = memoryview(b"".join(encode(self._version, 5, "test")))[4:]
        _, start = read_request_header(frame)
        self.requests.append(decode_fetch_request(self._version, frame, start))
        self.waits.append(within)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        error, session_id, partitions = reply
        topics = [("orders", ID, list(partitions))] if partitions else []
        parts = encode_fetch_response(
            self._version, 5, 30, error, session_id, topics, self.endpoints
        )
        return decode(self._version, memoryview(b"".join(map(as_bytes, parts)))[4:])

    async def fetch(
        self,
        partitions: dict[TopicPartition, PartitionFetch],
        params: FetchParams = PARAMS,
        **how: Any,
    ) -> FetchAnswer:
        return await fetch(cast("BrokerConnection", self), partitions, params, **how)


def whole(offset: int) -> dict[TopicPartition, PartitionFetch]:
    return {ZERO: PartitionFetch(ID, offset, 1000, 3), ONE: PartitionFetch(ID, offset, 1000, 3)}


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
async def test_a_reader_without_a_session(version: int) -> None:
    broker = Broker((0, 0, [FetchedPartition(0, 0, 40, 40, 0, records=b"abc")]), version=version)
    answer = await broker.fetch({ZERO: PartitionFetch(ID, 30, 1000, 3)}, within=10.0)
    (request,) = broker.requests
    assert (request.replica_id, request.session_id, request.session_epoch) == (CONSUMER, 0, -1)
    assert broker.waits == [10.5]
    result = answer.partitions[ZERO]
    assert (result.high_watermark, bytes(cast("bytes", result.records))) == (40, b"abc")
    assert (answer.error_code, answer.throttle_ms) == (0, 30)


async def test_what_a_follower_says_and_hears() -> None:
    """Replica and broker epoch, its last epoch and log start; where its log parts from ours."""
    leader = FetchedPartition(
        1,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=(4, 9),
    )
    diverging = FetchedPartition(0, 0, 90, -1, 10, diverging_epoch=(2, 75))
    broker = Broker((0, 81, [diverging, leader]))
    broker.endpoints = [Node(4, "four", 9092, "rack")]
    session = FetchSession()
    wanted = {
        ZERO: PartitionFetch(ID, 80, 1000, 8, last_fetched_epoch=3, log_start_offset=20),
        ONE: PartitionFetch(ID, 5, 1000, 8, last_fetched_epoch=7, log_start_offset=0),
    }
    params = FetchParams(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, replica_id=2, replica_epoch=42
    )
    answer = await broker.fetch(wanted, params, session=session)
    (request,) = broker.requests
    assert (request.replica_id, request.replica_epoch) == (2, 42)
    (topic,) = request.topics
    assert topic.partitions == [
        FetchPartition(0, 8, 80, 3, 20, 1000),
        FetchPartition(1, 8, 5, 7, 0, 1000),
    ]
    assert answer.partitions[ZERO].diverging_epoch == (2, 75)
    assert answer.partitions[ONE].current_leader == (4, 9)
    assert answer.node_endpoints == [Node(4, "four", 9092, "rack")]


async def test_a_consumer_in_a_session_asks_for_what_has_changed() -> None:
    preferred = FetchedPartition(0, 0, 40, 40, 0, preferred_read_replica=3)
    broker = Broker((0, 9, [preferred]), (0, 9, []))
    session = FetchSession()
    params = FetchParams(
        max_wait_ms=500, min_bytes=1, max_bytes=100, read_committed=True, rack_id="here"
    )
    answer = await broker.fetch(whole(0), params, session=session)
    assert answer.partitions[ZERO].preferred_read_replica == 3
    assert (broker.requests[0].isolation_level, broker.requests[0].rack_id) == (1, "here")
    answer = await broker.fetch({**whole(0), ONE: PartitionFetch(ID, 5, 1000, 3)}, session=session)
    assert answer.partitions == {}
    assert (broker.requests[1].session_id, broker.requests[1].session_epoch) == (9, 1)
    assert [p.partition for t in broker.requests[1].topics for p in t.partitions] == [1]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
)
async def test_a_session_that_the_broker_has_lost_is_begun_anew_at_once(error: ErrorCode) -> None:
    found = FetchedPartition(0, 0, 40, 40, 0)
    broker = Broker((0, 9, []), (error, 0, []), (0, 10, [found]))
    session = FetchSession()
    await broker.fetch(whole(0), session=session)
    answer = await broker.fetch(whole(0), session=session)
    assert (answer.error_code, list(answer.partitions)) == (0, [ZERO])
    assert [request.session_epoch for request in broker.requests] == [0, 1, 0]
    assert len(broker.requests[2].topics[0].partitions) == 2


async def test_a_broker_that_refuses_every_session_is_not_asked_for_ever() -> None:
    refusal: Reply = (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    broker = Broker(refusal, refusal)
    answer = await broker.fetch(whole(0), session=FetchSession())
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_other_errors_of_a_whole_fetch_are_the_callers() -> None:
    broker = Broker((ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0, []))
    answer = await broker.fetch(whole(0), session=FetchSession())
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(broker.requests) == 1


async def test_without_an_answer_nobody_knows_what_the_broker_has_seen() -> None:
    broker = Broker((0, 9, []), ConnectionLostError("gone"), (0, 9, []))
    session = FetchSession()
    await broker.fetch(whole(0), session=session)
    with pytest.raises(ConnectionLostError):
        await broker.fetch(whole(1), session=session)
    await broker.fetch(whole(1), session=session)
    assert [request.session_epoch for request in broker.requests] == [0, 1, 0]


async def test_topics_that_nobody_asked_for_are_passed_over() -> None:
    broker = Broker((0, 0, [FetchedPartition(0)]))
    answer = await broker.fetch({TopicPartition("others", 0): PartitionFetch(UUID(int=8), 0, 9)})
    assert answer.partitions == {}
