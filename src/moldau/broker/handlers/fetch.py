"""Fetch (key 1, versions 4-18): read batches, by long poll.

Behaviour: answers at once when ``min_bytes`` are there, when a partition cannot be read, when a
reader lags a segment behind (a read never spans two), or when nothing may be waited for; otherwise
the request is parked, without polling, until enough arrives or ``max_wait_ms`` is over. Data goes
from the segment file to the socket (sendfile); this module only decides which range. Limits: the
request's, each partition's and ``fetch.max.bytes``; the first partition with data always gives at
least one whole batch, so that a consumer never gets stuck (KIP-74). Sessions:
``broker/fetch_sessions.py``. A client over its quota gets an answer without partitions, and a new
session only with a later one. From version 13 on topics are named by id. Leader epochs are
checked, a diverging follower is told where to cut (KIP-595), and whoever asks the wrong broker who
leads (KIP-951). Fetches of very many partitions
are read and answered some at a time, with everybody else's turn in between.
Known deviations: there are no remote segments and no preferred read replica. When fetches of very
many partitions wait already, a further one is answered after a tenth of a second, whatever comes
meanwhile; one that names a topic with more than 249 characters does not wait at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.broker.fetch_reading import Fetch, Response, failed
from moldau.broker.fetch_sessions import LARGE_FETCH, WITHOUT_PLACE_S, Waiting, are_legal
from moldau.broker.large_fetch import LargeFetch, free_discarded
from moldau.broker.request import Request
from moldau.errors import KafkaError
from moldau.machine import Part
from moldau.net import Pending
from moldau.replication import ParkedFetch
from moldau.wire.fetch import (
    FetchedTopic,
    FetchRequest,
    decode_fetch_request,
    encode_fetch_response,
)

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
MANY: Final = 50
"""Partitions after which it is the others' turn before this client's next request."""
decode = decode_fetch_request


def handle(request: Request[FetchRequest]) -> Fetch | Pending:
    broker, body = request.broker, request.body
    request.check_replica(body.replica_id)
    by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    sessions = broker.fetch_sessions
    context = sessions.open(body, uses_topic_ids=by_id, now=broker.clock.monotonic())
    listener = request.connection.listener
    fetch = Fetch(broker, body, context, uses_topic_ids=by_id, listener=listener)
    if sessions.discarded:
        free_discarded(broker)
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
    waiting = sessions.wait(len(context.partitions), body.replica_id)
    if waiting is None:
        return _answer_later(request, fetch)
    return _park(request, fetch, waiting)


async def handle_large(request: Request[FetchRequest]) -> Pending:
    """As ``handle``, with everybody else's turn after some partitions."""
    broker, body = request.broker, request.body
    request.check_replica(body.replica_id)
    by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    context = await broker.fetch_sessions.open_large(
        body, uses_topic_ids=by_id, now=broker.clock.monotonic()
    )
    if broker.fetch_sessions.discarded:
        free_discarded(broker)
    listener = request.connection.listener
    fetch = Fetch(broker, body, context, uses_topic_ids=by_id, listener=listener)
    large = LargeFetch(request, fetch)
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
            fetch.wait_in_session(None)
            parts = request.encode(fetch)
        except Exception as error:
            waiting.end()
            pending.complete(request.fail(error))
            return None
        waiting.end()
        pending.complete(parts)
        return None

    in_session = fetch.wait_in_session(None)
    parked = ParkedFetch(
        request.broker.clock,
        () if in_session else fetch.local_partitions(),
        min_bytes=body.min_bytes,
        available=fetch.size,
        max_wait_ms=body.max_wait_ms,
        attempt=attempt,
        as_follower=body.replica_id >= 0,
    )

    fetch.wait_in_session(parked)

    def abandon() -> None:
        waiting.end()
        parked.cancel()
        fetch.wait_in_session(None)

    pending.on_abandoned = abandon
    return pending


def error_answer(request: Request[FetchRequest], error: KafkaError) -> Response:
    """Before version 13 each partition says it as well: before 7 there is no other place."""
    body = request.body
    topics: list[FetchedTopic] = []
    if request.version < FIRST_VERSION_WITH_TOPIC_IDS:
        topics = [
            (topic.name, topic.topic_id, [failed(p.partition, error) for p in topic.partitions])
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
        response.endpoints,
    )
