"""A queue of coroutines that run one after the other: the shape of Kafka's ControllerEventManager.

The controller's decisions read and write one context. Running them one at a time is what lets them
be written without locks; a watch callback posts, a request submits and waits for its answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from moldau.coordination.errors import CoordinationError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class QueueClosedError(CoordinationError):
    """What was submitted will not run: its owner is stopping."""


class EventQueue:
    def __init__(self, name: str) -> None:
        self._name = name
        self._events: deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any] | None]]
        self._events = deque()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    def post(self, event: Callable[[], Awaitable[object]]) -> None:
        """Run it in turn; if it fails, that is logged."""
        self._put(event, None)

    async def submit(self, event: Callable[[], Awaitable[T]]) -> T:
        """Run it in turn and wait for its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if not self._put(event, future):
            raise QueueClosedError(f"{self._name} is closed")
        return await future

    @property
    def is_idle(self) -> bool:
        return self._worker is None

    def abandon(self) -> None:
        """Drop what has not begun, and break off what has."""
        self._closed = True
        self._events.clear()
        if self._worker is not None:
            self._worker.cancel()

    async def drain(self) -> None:
        """Wait until everything posted so far, and what that posted, has run."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Drop what has not begun, wait for what has."""
        self._closed = True
        while self._events:
            _, future = self._events.popleft()
            if future is not None and not future.done():
                future.set_exception(QueueClosedError(f"{self._name} is closed"))
        await self.drain()

    def _put(self, event: Callable[[], Awaitable[Any]], future: asyncio.Future[Any] | None) -> bool:
        if self._closed:
            return False
        self._events.append((event, future))
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._run())
        return True

    async def _run(self) -> None:
        try:
            while self._events:
                event, future = self._events.popleft()
                try:
                    result = await event()
                except Exception as error:
                    if future is None and isinstance(error, CoordinationError):
                        # The store says why; where this happened is no news.
                        logger.error("%s: an event failed: %s", self._name, error)
                    elif future is None:
                        logger.exception("%s: an event failed", self._name)
                    elif not future.done():
                        future.set_exception(error)
                else:
                    if future is not None and not future.done():
                        future.set_result(result)
        finally:
            self._worker = None
