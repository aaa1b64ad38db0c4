"""From a frame to a handler and back to an answer: one way for every API, read off the table.

A handler may raise: ``Request.fail`` makes an answer of it. Only what cannot be decoded, and what
is not served, closes the connection.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

from moldau.broker.answer_cache import AnswerCache
from moldau.broker.apis import APIS
from moldau.broker.broker import Broker
from moldau.broker.large_requests import MOST_ELEMENTS, AbandonedError, LargeRequests
from moldau.broker.metered_request import MeteredRequest
from moldau.broker.pieces import Doubles, distinct, has_more_elements
from moldau.broker.request import Request
from moldau.broker.routes import Route
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Part
from moldau.net import Pending, ServerConnection
from moldau.wire.api import ApiKey
from moldau.wire.api_versions import encode_api_versions_response
from moldau.wire.errors import DecodeError, TooManyElementsError
from moldau.wire.headers import FIRST_PRIVATE_KEY, RequestHeader, read_request_header

Answer: TypeAlias = Sequence[Part] | Pending | None
Keep: TypeAlias = Callable[[Sequence[Part]], None]


class Router:
    """The handler of every connection of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._routes: list[Route | None] = [None] * len(ApiKey)
        self._answers = AnswerCache()
        self._large = LargeRequests(broker.run_in_thread, broker.request_memory)
        self._most_elements = MOST_ELEMENTS
        self._requests = broker.traffic.requests
        self._quotas = broker.client_quotas

    def __call__(self, connection: ServerConnection, frame: memoryview) -> Answer:
        header, position = read_request_header(frame)
        if header.api_key >= FIRST_PRIVATE_KEY:
            return self._private(header, connection, frame, position)
        route = self._routes[header.api_key] or self._load(header)
        if not route.oldest <= header.api_version <= route.newest:
            return self._other_version(header)
        self._requests[header.api_key] += 1
        if route.is_cached:
            return self._route_cached(route, header, connection, frame, position)
        try:
            body = route.decode(header.api_version, frame, position, self._most_elements)
        except TooManyElementsError:
            return self._execute_large(route, header, connection, frame, position)
        if (self._quotas.is_metering and connection.broker_id < 0) or not route.is_hot:
            return self._execute(self._request(route, header, connection, body, len(frame)))
        request = Request(self._broker, route, header, connection, body)
        try:
            response = route.handle(request)
            if response is None or type(response) is Pending:
                return response
            return request.encode(response)
        except Exception as error:
            return request.fail(error)

    def _private(
        self, header: RequestHeader, connection: ServerConnection, frame: memoryview, position: int
    ) -> Answer:
        """What brokers ask of each other. Nobody else gets to know that there is such a thing."""
        private = self._broker.private_apis
        if private is None:
            raise DecodeError(f"unknown API key {header.api_key}")
        connection.end_turn()
        return private.answer(header, connection, frame, position)

    def _load(self, header: RequestHeader) -> Route:
        key = ApiKey(header.api_key)
        if key not in APIS:
            raise DecodeError(f"API key {key} version {header.api_version} is not served")
        route = self._routes[key] = Route(key)
        return route

    def _other_version(self, header: RequestHeader) -> Answer:
        """A version of ApiVersions from the future is answered as in version 0 (KIP-511)."""
        key, version = header.api_key, header.api_version
        if key != ApiKey.API_VERSIONS:
            raise DecodeError(f"API key {key} version {version} is not served")
        self._requests[key] += 1
        return [encode_api_versions_response(version, header.correlation_id)]

    def _route_cached(
        self,
        route: Route,
        header: RequestHeader,
        connection: ServerConnection,
        frame: memoryview,
        position: int,
    ) -> Answer:
        metadata = self._broker.metadata
        version_before = metadata.version
        key = (header.api_version, connection.listener, bytes(frame[position:]))
        known = self._answers.get(key, version_before)
        if known is not None:
            return [known[:4] + header.correlation_id.to_bytes(4, "big", signed=True) + known[8:]]

        def keep(answer: Sequence[Part]) -> None:
            (encoded,) = answer
            if metadata.version == version_before and isinstance(encoded, bytes):
                self._answers.put(key, version_before, encoded)

        try:
            body = route.decode(header.api_version, frame, position, self._most_elements)
        except TooManyElementsError:
            return self._execute_large(route, header, connection, frame, position)
        return self._execute(self._request(route, header, connection, body, len(frame)), keep)

    def _request(
        self,
        route: Route,
        header: RequestHeader,
        connection: ServerConnection,
        body: Any,
        size: int,
    ) -> Request[Any]:
        if self._quotas.is_metering and connection.broker_id < 0:
            return MeteredRequest(self._broker, route, header, connection, body, size)
        return Request(self._broker, route, header, connection, body)

    def _execute(self, request: Request[Any], keep: Keep | None = None) -> Answer:
        route = request.route
        if not route.is_hot:
            # Up to milliseconds, not microseconds: nobody should wait for a pipeline of these.
            request.connection.end_turn()
        if route.api.has_timeout:
            self._set_deadline(request, request.body.timeout)
        cut = route.api.pieces
        if cut is not None and cut.doubles is Doubles.ONCE:
            request.body = distinct(request.body, cut.request)
        try:
            response = request.handle()
            if inspect.isawaitable(response):
                pending = Pending()
                self._spawn(request, self._encoded(request, response, keep), pending)
                return pending
            if type(response) is Pending:
                return response
            if response is None:
                request.unanswered()
                return None
            if not route.is_hot and has_more_elements(response, self._most_elements):
                pending = Pending()
                self._spawn(request, self._large.encode(request, response), pending)
                return pending
            return request.encode(response)
        except Exception as error:
            return request.fail(error)

    def _spawn(
        self, request: Request[Any], answer: Awaitable[Sequence[Part] | None], pending: Pending
    ) -> None:
        self._broker.tasks.spawn(self._answer_later(request, answer, pending))

    async def _encoded(
        self, request: Request[Any], response: Awaitable[Any], keep: Keep | None
    ) -> Sequence[Part]:
        answer = await response
        if has_more_elements(answer, self._most_elements):
            parts = await self._large.encode(request, answer)
        else:
            parts = request.encode(answer)
        if keep is not None and request.is_cacheable and not request.throttle_ms:
            keep(parts)
        return parts

    def _execute_large(
        self,
        route: Route,
        header: RequestHeader,
        connection: ServerConnection,
        frame: memoryview,
        position: int,
    ) -> Pending:
        pending = Pending()
        kept = self._large.keep(frame)
        self._broker.tasks.spawn(
            self._answer_large(route, header, connection, kept, position, pending)
        )
        return pending

    async def _answer_large(
        self,
        route: Route,
        header: RequestHeader,
        connection: ServerConnection,
        frame: memoryview,
        position: int,
        pending: Pending,
    ) -> None:
        large = self._large
        try:
            try:
                body = await large.decode(route, header, frame, position, pending)
            except AbandonedError:
                return
            except Exception as error:
                connection.refuse(error)
                return
            request = self._request(route, header, connection, body, len(frame))
            if route.api.has_timeout:
                self._set_deadline(request, body.timeout)
            await self._answer_later(request, large.respond(request), pending)
        finally:
            large.let_go(frame)

    def _set_deadline(self, request: Request[Any], timeout: timedelta) -> None:
        # Old clients send 0 for "do not wait", and are better served by the answer.
        if timeout > timedelta():
            request.deadline = self._broker.clock.monotonic() + timeout.total_seconds()

    async def _answer_later(
        self,
        request: Request[Any],
        answer: Awaitable[Sequence[Part] | Pending | None],
        pending: Pending,
    ) -> None:
        timer = None
        if request.deadline is not None:
            clock = self._broker.clock
            timer = clock.call_later(
                max(request.deadline - clock.monotonic(), 0),
                partial(self._time_is_up, request, pending),
            )
        parts: Sequence[Part] | Pending | None
        try:
            parts = await answer
        except Exception as error:
            parts = request.fail(error)
        if timer is not None:
            timer.cancel()
        if isinstance(parts, Pending):
            pending.take_over(parts)
        else:
            pending.complete(parts)

    def _time_is_up(self, request: Request[Any], pending: Pending) -> None:
        """The client is told; the work goes on, since nobody can tell how far it is."""
        request.deadline = None
        self._spawn(
            request,
            self._large.refuse(request, KafkaError(ErrorCode.REQUEST_TIMED_OUT)),
            pending,
        )
