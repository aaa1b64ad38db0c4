"""An asyncio event loop whose time is virtual and whose every callback belongs to a process.

Nothing waits: when all that is ready has run, the clock jumps to the next timer. Callbacks run in
the order of their times, and of their making where the times are equal, so a run is a function of
what the callbacks do. Each callback belongs to the simulated process (``Process``) in whose context
it was made: those of a process that has ended are dropped, those of one that is paused are held
until it goes on.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import heapq
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from moldau.testing.simulation.errors import (
    ProcessEnded,
    SimulationStuckError,
    SimulationTooLongError,
)
from moldau.testing.simulation.process import PROCESS

T = TypeVar("T")

RESOLUTION: Final = 1e-6
MOST_CALLBACKS_AT_ONCE: Final = 200_000
"""Programs that do so much without any time passing go round in circles."""


class SimulatedHandle:
    """A callback that is due at some time; holds on to nothing once it has run or is cancelled."""

    __slots__ = ("args", "callback", "context", "process")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.process = context.get(PROCESS)

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None


class SimulatedLoop(asyncio.AbstractEventLoop):
    """One loop for all simulated processes of a world."""

    def __init__(self) -> None:
        self._now = 0.0
        self._made = 0
        self._ready: deque[SimulatedHandle] = deque()
        self._timers: list[tuple[float, int, SimulatedHandle]] = []
        """A heap; the number keeps those of one time in the order of their making."""
        self._stopping = False
        self._closed = False
        self.callbacks = 0
        """How many callbacks have run."""
        self._callbacks_before = 0
        self.time_limit = float("inf")
        """Virtual seconds after which a run is given up."""
        self.on_error: Callable[[dict[str, Any]], object] = _print_error
        """Called with what asyncio tells of an exception that nobody caught."""
        self._hooks = sys.get_asyncgen_hooks()

    # Time ----------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # a handle of our own
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimulatedHandle:
        handle = SimulatedHandle(callback, args, _given(context))
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimulatedHandle:
        self._made += 1
        # As with a real clock, some time passes before a timer fires, however little was left.
        when = max(when, self._now + RESOLUTION)
        handle = SimulatedHandle(callback, args, _given(context))
        heapq.heappush(self._timers, (when, self._made, handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimulatedHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]  # there is one thread
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimulatedHandle:
        return self.call_soon(callback, *args, context=context)

    # Running -------------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        if not task.done():
            raise SimulationStuckError(f"nothing is left to happen, but {task} has not ended")
        return task.result()

    def run_forever(self) -> None:
        previous = asyncio.events._get_running_loop()
        asyncio.events._set_running_loop(self)
        sys.set_asyncgen_hooks(finalizer=self._close_generator)
        self._stopping = False
        try:
            while not self._stopping and self._run_next():
                pass
        finally:
            sys.set_asyncgen_hooks(*self._hooks)
            asyncio.events._set_running_loop(previous)

    def _run_next(self) -> bool:
        """Run one callback, letting time pass if need be; False if nothing is left."""
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0][2].callback is None:
                heapq.heappop(timers)
            if not timers:
                return False
            self._let_time_pass(timers[0][0])
        while timers and timers[0][0] <= self._now:
            handle = heapq.heappop(timers)[2]
            if handle.callback is not None:
                ready.append(handle)
        self._run(ready.popleft())
        return True

    def _let_time_pass(self, until: float) -> None:
        if until > self._now:
            if until > self.time_limit:
                raise SimulationTooLongError(f"it is not over after {self.time_limit:g} s")
            self._now = until
            self._callbacks_before = self.callbacks
        elif self.callbacks - self._callbacks_before > MOST_CALLBACKS_AT_ONCE:
            raise SimulationStuckError(f"no end of callbacks at {self._now:.6f} s")

    def _run(self, handle: SimulatedHandle) -> None:
        callback = handle.callback
        if callback is None:
            return
        process = handle.process
        if process is not None and not process.admits(handle):
            return
        self.callbacks += 1
        try:
            handle.context.run(callback, *handle.args)
        except ProcessEnded:
            pass
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler(
                {"message": f"Exception in callback {callback!r}", "exception": error}
            )

    def requeue(self, handle: SimulatedHandle) -> None:
        """Run a handle after all that was held back while its process was paused."""
        self._ready.append(handle)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return asyncio.events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # What tasks and futures need -----------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_kwargs: Any,
    ) -> asyncio.Task[T]:
        context = _given(context)
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        process = context.get(PROCESS)
        if process is not None:
            process.keep(task)
        return task

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        del enabled

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.on_error(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), ProcessEnded):
            self.on_error(context)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self.create_task(generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        return


def _given(context: Context | None) -> Context:
    # Not "or": a context without variables is false.
    return copy_context() if context is None else context


def _print_error(context: dict[str, Any]) -> None:
    sys.stderr.write(f"{context}\n")
