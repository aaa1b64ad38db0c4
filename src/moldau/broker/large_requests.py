"""Requests with so many items that others would have to wait for them.

The loop decodes up to ``ITEMS_PER_TURN`` array elements of a request. One that has more is

- decoded in a thread, and its answer encoded in one;
- executed as several requests with fewer items (``pieces``), with everybody else's turn in between:
  as if the client had sent them one after another, as it might have;
- refused when too much of the kind waits already.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, Final

from moldau.broker.pieces import distinct, join, split
from moldau.broker.request import Request
from moldau.broker.routes import Route
from moldau.machine import Part
from moldau.machine.threads import RunInThread
from moldau.net import Pending
from moldau.wire.errors import DecodeError
from moldau.wire.headers import RequestHeader
from moldau.wire.primitives import MAX_ELEMENTS

ITEMS_PER_TURN: Final = 1000
"""Each takes some microseconds to decode, to handle and to encode."""
ITEMS_PER_PIECE: Final = 100
AT_ONCE: Final = 4
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024


class LargeRequests:
    """Executes them, some at a time."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting_bytes = 0

    def keep(self, frame: memoryview) -> memoryview:
        """Returns a copy that stays valid; DecodeError if too much waits already."""
        if self._waiting_bytes + len(frame) > MAX_WAITING_BYTES:
            raise DecodeError(f"{self._waiting_bytes} bytes of large requests wait already")
        self._waiting_bytes += len(frame)
        return memoryview(bytearray(frame))

    async def decode(self, route: Route, header: RequestHeader, frame: memoryview, at: int) -> Any:
        """Returns the body, once there is a place for it; ``respond`` gives the place back."""
        await self._places.acquire()
        try:
            return await self._run_in_thread(
                route.decode, header.api_version, frame, at, MAX_ELEMENTS
            )
        except BaseException:
            self._places.release()
            raise
        finally:
            self._waiting_bytes -= len(frame)

    async def respond(self, request: Request[Any]) -> Sequence[Part] | None:
        """Returns the encoded answer, None if there is none, and gives the place back."""
        try:
            response = await self._handle(request)
            if response is None:
                request.unanswered()
                return None
            if isinstance(response, Pending):
                return await settled(response)
            request.charge(response)
            return await self._run_in_thread(
                request.route.encode,
                request.version,
                request.header.correlation_id,
                response,
                request.throttle_ms,
            )
        finally:
            self._places.release()

    async def _handle(self, request: Request[Any]) -> Any:
        route, body = request.route, request.body
        if route.handle_large is not None:
            return await route.handle_large(request)
        cut = route.api.pieces
        if cut is None:
            return await _handle_piece(request)
        if cut.are_distinct:
            body = await self._run_in_thread(distinct, body, cut.request)
        responses = []
        try:
            for piece in split(body, cut.request, ITEMS_PER_PIECE):
                request.body = piece
                responses.append(await _handle_piece(request))
        finally:
            request.body = body
        return await self._run_in_thread(join, responses, cut.response)


async def others_turn() -> None:
    """Go on when everybody else who is ready had a turn."""
    await asyncio.sleep(0)


async def _handle_piece(request: Request[Any]) -> Any:
    await others_turn()
    response = request.handle()
    return await response if inspect.isawaitable(response) else response


async def settled(pending: Pending) -> Sequence[Part] | None:
    """Returns the answer that a handler has put off."""
    future: asyncio.Future[Sequence[Part]] = asyncio.get_running_loop().create_future()
    pending.when_done(future.set_result)
    return await future
