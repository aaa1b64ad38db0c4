"""Blocking clients: the async ones, on an event loop of their own in a daemon thread.

A blocking class names its async twin's methods and adds nothing::

    class Admin(BlockingClient[AsyncAdmin]):
        create_topics = blocking(AsyncAdmin.create_topics)

Calls may come from any thread. Ctrl-C in a call cancels it and leaves the client usable. A client
that nobody closed does not keep the process from ending: its loop is stopped at exit. A client made
before ``os.fork`` has no loop in the child, and says so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from moldau.client.closing import Closing
from moldau.client.errors import ClosedError
from moldau.client.user_threads import LOOK_UP
from moldau.machine.real.loop import loop_factory

T = TypeVar("T")
P = ParamSpec("P")
Inner = TypeVar("Inner")

_JOIN_TIMEOUT: Final = 5.0
_threads: Final[weakref.WeakSet[LoopThread]] = weakref.WeakSet()


class LoopThread:
    """An event loop in a daemon thread, started by the first call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.forked = False
        """Whether this is a child process, where the thread does not exist."""
        self.on_fork: Callable[[], object] = _nothing
        """Called in the child process after a fork."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ident = 0
        self._stopped = False
        self._stop_at_exit: weakref.finalize[..., Any] | None = None
        _threads.add(self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; ``ClosedError`` when there is none any more."""
        loop = self._loop
        if loop is None or self.forked or self._stopped:
            return self._start()
        return loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its end. Ctrl-C cancels it."""
        try:
            loop = self.loop
            if threading.get_ident() == self._ident:
                raise RuntimeError("a blocking client was called from its own event loop")
        except BaseException:
            work.close()
            raise
        # Made before anything runs: wherever Ctrl-C strikes from here on, it can be called off.
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            begin(loop, work, future, self.name)
            return _result(future)
        except asyncio.CancelledError:
            raise ClosedError(f"The {self.name} was closed during the call") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancel what still runs and end the thread. Calls after this are refused."""
        with self._lock:
            self._stopped = True
            if self._stop_at_exit is not None and not self.forked:
                self._stop_at_exit()

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self.forked:
                raise ClosedError(
                    f"This {self.name} was made before a fork and cannot be used in the child "
                    "process; make a new one there"
                )
            if self._stopped:
                raise ClosedError(f"The {self.name} is closed")
            if self._loop is None:
                loop = loop_factory()()
                thread = threading.Thread(
                    target=_run_loop, args=(loop,), name=f"moldau {self.name}", daemon=True
                )
                thread.start()
                assert thread.ident is not None
                self._ident = thread.ident
                self._stop_at_exit = weakref.finalize(self, _stop_loop, loop, thread)
                self._loop = loop
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        # Calls that came at the last moment begin here, and are called off like the others.
        loop.run_until_complete(loop.shutdown_asyncgens())
        while tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


def _result(future: concurrent.futures.Future[T]) -> T:
    """Wait for the future."""
    while True:
        try:
            return future.result(LOOK_UP)
        except TimeoutError:
            if future.done():  # what was waited for has failed with this
                raise


def begin(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    future: concurrent.futures.Future[T],
    name: str,
) -> None:
    """Have the loop of the client of this name run the coroutine for the future."""
    try:
        loop.call_soon_threadsafe(_start_task, loop, work, future)
    except RuntimeError:  # closed this moment
        work.close()
        raise ClosedError(f"The {name} is closed") from None


def _start_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    future: concurrent.futures.Future[T],
) -> None:
    """Runs on the loop; the future and the task end each other."""
    if future.cancelled():
        work.close()
        return
    task = loop.create_task(work)

    def task_ended(ended: asyncio.Task[T]) -> None:
        if not future.set_running_or_notify_cancel():
            # Whoever called has gone; what became of the call is nobody's business any more.
            if not ended.cancelled():
                ended.exception()
        elif ended.cancelled():
            future.set_exception(asyncio.CancelledError())
        elif (error := ended.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(ended.result())

    def caller_ended(ended: concurrent.futures.Future[T]) -> None:
        if ended.cancelled() and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    task.add_done_callback(task_ended)
    future.add_done_callback(caller_ended)


def _stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Also called at exit, and when a client is collected, possibly by its own thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(_JOIN_TIMEOUT)


def _mark_forked() -> None:
    for thread in list(_threads):
        thread.forked = True
        if thread._stop_at_exit is not None:
            thread._stop_at_exit.detach()
        thread.on_fork()


def _nothing() -> None:
    return


os.register_at_fork(after_in_child=_mark_forked)


class BlockingClient(Closing, Generic[Inner]):
    """What the blocking classes have in common: the async client, and the loop it lives on."""

    _inner: Inner
    _thread: LoopThread

    def __init__(self, inner: Inner, name: str) -> None:
        self._inner = inner
        self._thread = LoopThread(name)


def blocking(
    method: Callable[Concatenate[Inner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingClient[Inner], P], T]:
    """The blocking form of an async method, with its signature and its documentation."""

    @functools.wraps(method)
    def call(self: BlockingClient[Inner], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._inner, *args, **kwargs))

    # Nobody should find a coroutine function here.
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    del call.__wrapped__
    return call
