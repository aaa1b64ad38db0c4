"""Requests and answers with so many items that others would have to wait for them.

The loop decodes up to ``MOST_ELEMENTS`` array elements of a request. One that has more is

- decoded in a thread, and its answer encoded in one;
- executed as several requests with fewer items (``pieces``), with everybody else's turn in between:
  as if the client had sent them one after another, as it might have;
- refused when too much of the kind waits already. What is kept of it counts as memory of requests.

An answer with more of them is encoded in a thread, whatever was asked.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, Final, Literal

from moldau.broker.collector import YoungObjectsOnly
from moldau.broker.pieces import Doubles, distinct, join, split, together
from moldau.broker.request import Request
from moldau.broker.routes import Route
from moldau.broker.turns import ITEMS_PER_TURN, others_turn
from moldau.errors import KafkaError
from moldau.machine import Part
from moldau.machine.threads import RunInThread
from moldau.net import Pending
from moldau.net.memory_pool import MemoryPool
from moldau.wire.errors import DecodeError
from moldau.wire.headers import RequestHeader

MOST_ELEMENTS: Final = 1000
"""Each takes some microseconds to decode, to handle and to encode."""
MOST_OF_A_LARGE_REQUEST: Final = 100_000
"""With its answer, an element takes up to half a kilobyte."""
AT_ONCE: Final = 4
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024


class AbandonedError(Exception):
    """The client has gone before anything was done for it, so that nothing need be done."""


class LargeRequests:
    """Executes them, some at a time."""

    def __init__(self, run_in_thread: RunInThread, memory: MemoryPool) -> None:
        self._run_in_thread = run_in_thread
        self._memory = memory
        self._places = _Places(AT_ONCE)
        self._waiting_bytes = 0

    def keep(self, frame: memoryview) -> memoryview:
        """Returns a copy that stays valid, until ``let_go``; DecodeError if too much waits already.

        One that waits alone may be larger than what may wait.
        """
        if self._waiting_bytes and self._waiting_bytes + len(frame) > MAX_WAITING_BYTES:
            raise DecodeError(f"{self._waiting_bytes} bytes of large requests wait already")
        self._waiting_bytes += len(frame)
        self._memory.count(len(frame))
        return memoryview(bytearray(frame))

    def let_go(self, kept: memoryview) -> None:
        """Neither the frame nor what was decoded of it is needed any more."""
        self._memory.count(-len(kept))

    async def decode(
        self, route: Route, header: RequestHeader, frame: memoryview, at: int, pending: Pending
    ) -> Any:
        """Returns the body, once there is a place for it; ``respond`` gives the place back.

        Raises AbandonedError if by then nobody waits for the answer.
        """
        try:
            await self._places.acquire()
            try:
                if pending.abandoned:
                    raise AbandonedError
                return await self._run_in_thread(
                    route.decode, header.api_version, frame, at, MOST_OF_A_LARGE_REQUEST
                )
            except BaseException:
                self._places.release()
                raise
        finally:
            self._waiting_bytes -= len(frame)

    async def respond(self, request: Request[Any]) -> Sequence[Part] | Pending | None:
        """Returns the encoded answer, None if there is none, or the place where it will be; and
        gives the place back in which the request was executed.
        """
        try:
            return await self._respond(request)
        finally:
            self._places.release()

    async def _respond(self, request: Request[Any]) -> Sequence[Part] | Pending | None:
        try:
            response = await self._handle(request)
        except Exception as error:
            return await self.refuse(request, error)
        if response is None:
            request.unanswered()
            return None
        if isinstance(response, Pending):
            return response
        return await self.encode(request, response)

    async def refuse(self, request: Request[Any], error: Exception) -> Sequence[Part] | None:
        """Returns the encoded answer to a request that failed as a whole."""
        response = await self._run_in_thread(request.refusal, error)
        if response is None:
            request.connection.close()
            return None
        return await self.encode(request, response)

    async def encode(self, request: Request[Any], response: Any) -> Sequence[Part]:
        """Returns a whole answer, encoded in a thread."""
        if request.route.is_hot:
            # Its codec is quick, and it may note what it tells.
            return request.encode(response)
        request.charge(response)
        return await self._run_in_thread(
            request.route.encode,
            request.version,
            request.header.correlation_id,
            response,
            request.throttle_ms,
        )

    async def _handle(self, request: Request[Any]) -> Any:
        route, body = request.route, request.body
        if route.handle_large is not None:
            return await request.handle_large()
        cut = route.api.pieces
        if cut is None:
            return await _handle_piece(request)
        request.whole = body
        if cut.doubles is Doubles.REFUSED:
            body = await self._run_in_thread(together, body, cut.request)
        elif cut.doubles is not Doubles.EACH:
            body = await self._run_in_thread(distinct, body, cut.request)
        responses = []
        for piece in split(body, cut.request, ITEMS_PER_TURN):
            request.body = piece
            try:
                response = await _handle_piece(request)
            except KafkaError as error:
                response = await self._run_in_thread(route.error_answer, request, error)
                if response is None:
                    raise
            responses.append(response)
        return await self._run_in_thread(join, responses, cut.response)


class _Places(asyncio.Semaphore):
    """While one of them is taken the garbage collector looks at young objects only."""

    _young = YoungObjectsOnly()

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self._young.__enter__()
        return True

    def release(self) -> None:
        self._young.__exit__()
        super().release()


async def _handle_piece(request: Request[Any]) -> Any:
    await others_turn()
    response = request.handle()
    return await response if inspect.isawaitable(response) else response
