"""Kazoo's callbacks, brought to the event loop in the order in which ZooKeeper sent them.

Kazoo has one thread that talks to the server, and by default two more: one calls watches, the other
hands out answers. Between those two an answer can overtake the event that came before it, which the
coordination contract forbids. Here both go from the connection's thread straight to the loop, so
there is one order and no further thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kazoo.handlers.threading import SequentialThreadingHandler

T = TypeVar("T")


class _LoopQueue:
    """What kazoo takes for a queue of work."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def put(self, work: Callable[[], object]) -> None:
        # A loop that is closed has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """``patience_s`` is how long one connection may keep a session waiting, ``connect_within_s``
    how long a host has to take it: the next one is tried then.

    Kazoo gives a handshake with the only server all the time that the session has. A server that
    accepts and says nothing would cost the session; given up in time, another try may save it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, patience_s: float, connect_within_s: float
    ) -> None:
        super().__init__()
        self._loop = loop
        self._patience_s = patience_s
        self._connect_within_s = connect_within_s
        queue: Any = _LoopQueue(loop)
        self.callback_queue = queue
        self.completion_queue = queue
        self._running = True

    def select(self, *args: Any) -> Any:
        readers, writers, failing, timeout = args
        return super().select(readers, writers, failing, min(timeout, self._patience_s))

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> Any:
        timeout = min(timeout, self._connect_within_s)
        return super().create_connection(*args, timeout=timeout, **options)

    def run_apart(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have something done, which raises nothing, by a thread that no process waits for at its
        end: the look-up of a name can take minutes.
        """
        future: asyncio.Future[T] = self._loop.create_future()

        def run() -> None:
            self.completion_queue.put(partial(tell, work()))

        def tell(result: T) -> None:
            if not future.done():
                future.set_result(result)

        self.spawn(run)
        return future

    def start(self) -> None:
        """There are no threads to start."""

    def stop(self) -> None:
        """What comes after the end goes to the loop too: kazoo would call it where it is."""
