"""Requests that wait while their connection logs in anew.

A broker takes nothing but the login between its first and its last message (KIP-368). Callers do
not notice: they have their futures, and what they send goes out afterwards, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from moldau.machine.network import Part
from moldau.net.channel import Channel


class _Held(NamedTuple):
    parts: Sequence[Part]
    correlation_id: int
    timeout: float | None
    future: asyncio.Future[memoryview] | None
    """None for a request that gets no answer."""


class HeldRequests:
    """Stands in for a channel where requests are sent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._held: list[_Held] = []
        self.released = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def send(
        self, parts: Sequence[Part], correlation_id: int, *, timeout: float | None = None
    ) -> asyncio.Future[memoryview]:
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._held.append(_Held(parts, correlation_id, timeout, future))
        return future

    def send_oneway(self, parts: Sequence[Part]) -> None:
        self._held.append(_Held(parts, 0, None, None))

    def release(self) -> None:
        """Send it all. If the connection is gone, the requests fail as they would have."""
        held, self._held = self._held, []
        for parts, correlation_id, timeout, future in held:
            if future is not None:
                answer = self._channel.send(parts, correlation_id, timeout=timeout)
                answer.add_done_callback(_Handover(future))
            elif not self._channel.is_closed:
                self._channel.send_oneway(parts)
        self.released.set()


class _Handover:
    """Gives the answer of the request that was sent to who waits for the one that was held."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[memoryview]) -> None:
        self._future = future

    def __call__(self, answer: asyncio.Future[memoryview]) -> None:
        if answer.cancelled():
            self._future.cancel()
        elif (error := answer.exception()) is not None:
            if not self._future.done():
                self._future.set_exception(error)
        elif not self._future.done():
            self._future.set_result(answer.result())
