"""A request that counts against the quotas of its client.

What is over a quota is not refused: the answer is sent at once, says for how long the client should
hold back, and the connection is not read for as long (KIP-219).

- ``producer_byte_rate`` counts the bytes of Produce requests.
- ``consumer_byte_rate`` counts the bytes of records in Fetch answers. An answer that would go over
  it is sent without records, and its bytes do not count.
- ``request_percentage`` counts the time for which requests hold the event loop: handlers, and steps
  of those that wait. Not counted: reading and writing frames, Produce with acks=0, answers from the
  cache, and what other threads do. 100 is the whole loop.
- ``controller_mutation_rate`` is counted by the controller, which says how long to hold back.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.request import B, Request
from moldau.machine.clock import steady_ms
from moldau.wire.api import ApiKey

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.routes import Route
    from moldau.net import ServerConnection
    from moldau.wire.headers import RequestHeader


log = logging.getLogger(__name__)

CONTROLLER_MUTATION: Final = "ControllerMutation"


class MeteredRequest(Request[B]):
    __slots__ = ("_client", "_handler_s", "_size", "_told_ms")

    def __init__(
        self,
        broker: Broker,
        route: Route,
        header: RequestHeader,
        connection: ServerConnection,
        body: B,
        size: int,
    ) -> None:
        super().__init__(broker, route, header, connection, body)
        self._client = connection.principal.name, self.client_id
        self._size = size
        self._handler_s = 0.0
        self._told_ms: int | None = None
        """For how long the client was told to hold back; None as long as nothing was counted."""

    def handle(self) -> Any:
        if self._is_fetch:
            self._limit_fetch()
        response = self._timed(partial(self.route.handle, self))
        return _TimedSteps(response, self._timed) if inspect.isawaitable(response) else response

    def handle_large(self) -> Awaitable[Any]:
        if self._is_fetch:
            self._limit_fetch()
        return _TimedSteps(super().handle_large(), self._timed)

    async def timed(self, steps: Coroutine[Any, Any, None]) -> None:
        await _TimedSteps(steps, self._timed)

    def charge(self, response: Any) -> None:
        self._guard(partial(self._charge, response))

    def unanswered(self) -> None:
        """A producer with acks=0 is not told to hold back: it has to be made to."""
        self._guard(self._charge_unanswered)

    @property
    def _now_ms(self) -> int:
        return steady_ms(self.broker.clock)

    @property
    def _is_fetch(self) -> bool:
        return self.route.key is ApiKey.FETCH

    def _limit_fetch(self) -> None:
        """Read no more than could ever be sent without going over the quota."""
        body: Any = self.body
        most = self.broker.client_quotas.fetch.max_in_window(self._client, self._now_ms)
        if most is not None and most < body.max_bytes:
            body.max_bytes = int(most)
            body.min_bytes = min(body.min_bytes, body.max_bytes)

    def _timed(self, step: Callable[[], Any]) -> Any:
        clock = self.broker.clock
        start = clock.monotonic()
        try:
            return step()
        finally:
            self._handler_s += clock.monotonic() - start

    def _guard(self, charge: Callable[[], None]) -> None:
        """What was executed does not fail because it cannot be counted."""
        try:
            charge()
        except Exception:
            self.throttle_ms = 0
            quotas = self.broker.client_quotas
            if not quotas.has_failed:
                quotas.has_failed = True
                log.exception("requests cannot be counted against the quotas of %s", self._client)

    def _charge_unanswered(self) -> None:
        produce = self.broker.client_quotas.produce
        self._throttle("Produce", produce.record(self._client, self._size, self._now_ms))

    def _charge(self, response: Any) -> None:
        """Count the request, and hold its client back if that is too much."""
        if self._told_ms is not None:
            # What the controller says after the client was told that its time is up still holds.
            if self.throttle_ms != self._told_ms:
                self._throttle(CONTROLLER_MUTATION, self.throttle_ms)
            return
        quotas, client, now_ms = self.broker.client_quotas, self._client, self._now_ms
        # A rate of seconds per second is a share of the time; bounded, or a single slow request
        # would keep its client out for long.
        request_ms = min(
            quotas.request.record(client, self._handler_s * 100, now_ms),
            quotas.request.window.sample_ms,
        )
        holds = {CONTROLLER_MUTATION: self.throttle_ms, "Request": request_ms}
        if self.route.key is ApiKey.PRODUCE:
            holds["Produce"] = quotas.produce.record(client, self._size, now_ms)
        elif self._is_fetch:
            holds["Fetch"] = quotas.fetch.record(client, response.size, now_ms)
            if any(holds.values()):
                quotas.fetch.record(client, -response.size, now_ms)
        kind = max(holds, key=lambda kind: holds[kind])
        self._throttle(kind, holds[kind])

    def _throttle(self, kind: str, throttle_ms: int) -> None:
        self.throttle_ms = self._told_ms = throttle_ms
        if not throttle_ms:
            return
        throttled_ms = self.broker.client_quotas.throttled_ms
        throttled_ms[kind] = throttled_ms.get(kind, 0) + throttle_ms
        self.connection.mute(throttle_ms / 1000, self.broker.clock)


class _TimedSteps:
    """Awaits what a handler returned; ``timed`` is given each step that runs on the loop."""

    __slots__ = ("_awaitable", "_timed")

    def __init__(
        self, awaitable: Awaitable[Any], timed: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._awaitable = awaitable
        self._timed = timed

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._awaitable.__await__()
        step: Callable[[], Any] = partial(steps.send, None)
        while True:
            try:
                awaited = self._timed(step)
            except StopIteration as end:
                return end.value
            try:
                yield awaited
                step = partial(steps.send, None)
            except BaseException as error:  # thrown in: the handler is the one to deal with it
                step = partial(steps.throw, error)
