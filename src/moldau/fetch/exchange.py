"""One fetch from one broker: the request out, its answer by partition back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from moldau.fetch.request import FetchParams, PartitionFetch, SessionFetch, without_session
from moldau.fetch.session import FetchSession
from moldau.model import NO_TOPIC_ID, Node, TopicPartition
from moldau.net.broker_connection import BrokerConnection, Parts
from moldau.wire.api import ApiKey
from moldau.wire.fetch import (
    FetchedPartition,
    FetchResponse,
    decode_fetch_response,
    encode_fetch_request,
)


class FetchAnswer(NamedTuple):
    """``error_code`` is that of the whole request; each partition has one of its own."""

    error_code: int
    throttle_ms: int
    """The broker wants to be left in peace for so long (KIP-219)."""
    partitions: dict[TopicPartition, FetchedPartition]
    """In a session, those with news only. Records are views of the answer."""
    node_endpoints: list[Node]
    """Of the current leaders that partitions name with an error (KIP-951)."""


async def fetch(
    connection: BrokerConnection,
    partitions: Mapping[TopicPartition, PartitionFetch],
    params: FetchParams,
    *,
    session: FetchSession | None = None,
    within: float | None = None,
) -> FetchAnswer:
    """Ask a broker for what these partitions hold from their offsets on.

    ``within`` is for the broker's answer, on top of the time it may wait for records; by default
    what the connection has. A session that the broker has lost is begun anew.
    """
    if session is not None:
        session.want_only(partitions)
        return await fetch_in_session(connection, session, params, within=within)
    response = await _exchange(connection, without_session(partitions), params, within)
    names = {wanted.topic_id: key.topic for key, wanted in partitions.items()}
    return _answer(response, names)


async def fetch_in_session(
    connection: BrokerConnection,
    session: FetchSession,
    params: FetchParams,
    *,
    within: float | None = None,
) -> FetchAnswer:
    """As ``fetch``, for what the session wants."""
    for _ in range(2):
        try:
            asked = session.next_fetch()
            response = await _exchange(connection, asked, params, within)
        except BaseException:
            session.failed()
            raise
        if not session.answered(response.error_code, response.session_id):
            break
    return _answer(response, session.topic_names)


async def _exchange(
    connection: BrokerConnection, asked: SessionFetch, params: FetchParams, within: float | None
) -> FetchResponse:
    request = asked.request(params)

    def encode(version: int, correlation_id: int, client_id: str) -> Parts:
        return [encode_fetch_request(version, correlation_id, client_id, request)]

    wait = None if within is None else within + params.max_wait_ms / 1000
    return await connection.exchange(ApiKey.FETCH, encode, _decode, within=wait)


def _decode(version: int, frame: memoryview) -> FetchResponse:
    return decode_fetch_response(version, frame)[1]


def _answer(response: FetchResponse, names: Mapping[UUID, str]) -> FetchAnswer:
    partitions = {}
    for name, topic_id, results in response.topics:
        topic = name if name is not None else names.get(topic_id or NO_TOPIC_ID)
        if topic is not None:
            for result in results:
                partitions[TopicPartition(topic, result.partition)] = result
    return FetchAnswer(
        response.error_code, response.throttle_ms, partitions, response.node_endpoints
    )
