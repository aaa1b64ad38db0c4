"""An asyncio event loop whose time is virtual and whose every callback belongs to a process.

Nothing waits: when all that is ready has run, the clock jumps to the next timer. Callbacks run in
the order of their times, and of their making where the times are equal, so a run is a function of
what the callbacks do. Each callback belongs to the simulated process (``Process``) in whose context
it was made: those of a process that has ended are dropped, those of one that is paused are held
until it goes on.

What asyncio's loops have beside timers and tasks (sockets, executors, signals) is not here: a
program gets that from its machine.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import logging
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any, Final, TypeVar

from moldau.testing.simulation.errors import (
    ProcessEnded,
    SimulationStuckError,
    SimulationTooLongError,
)
from moldau.testing.simulation.kept_tasks import KeptTasks
from moldau.testing.simulation.process import PROCESS, ProcessState

T = TypeVar("T")

logger = logging.getLogger("asyncio")
"""Where asyncio's own loops tell of exceptions that nobody caught."""

RESOLUTION: Final = 1e-6
MOST_CALLBACKS_AT_ONCE: Final = 200_000
"""Programs that do so much without any time passing go round in circles."""

_RUNNING: Final = ProcessState.RUNNING


class SimulatedHandle:
    """A callback that is due; cancelled, it holds on to nothing."""

    __slots__ = ("_when", "args", "callback", "context", "process")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        when: float,
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.process = context.get(PROCESS)
        self._when = when

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self._when


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
        self._tasks = KeptTasks()
        """Those of the world."""
        self.time_limit = float("inf")
        """Virtual seconds after which a run is given up."""
        self.look_takes = 0.0
        """Virtual seconds that pass with every look at the clock. By default time stands still
        while programs run; on a real machine two looks in a row may differ by much."""

    # Time ----------------------------------------------------------------------------------------

    def time(self) -> float:
        self._now += self.look_takes
        return self._now

    def call_soon(  # type: ignore[override]  # a handle of our own
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> SimulatedHandle:
        if context is None:
            context = copy_context()
        handle = SimulatedHandle(callback, args, context, self._now)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimulatedHandle:
        # As with a real clock, some time passes before a timer fires, however little was left.
        soonest = self._now + RESOLUTION
        if when < soonest:
            when = soonest
        if context is None:
            context = copy_context()
        handle = SimulatedHandle(callback, args, context, when)
        self._made += 1
        heappush(self._timers, (when, self._made, handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> SimulatedHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    # Running -------------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._stop_with)
        try:
            self.run_forever()
        finally:
            task.remove_done_callback(self._stop_with)
        if not task.done():
            raise SimulationStuckError("nothing is left to happen, but the end is not reached")
        return task.result()

    def _stop_with(self, _future: object) -> None:
        self.stop()

    def run_forever(self) -> None:
        """Run until somebody calls ``stop``, or nothing is left that could happen."""
        if asyncio.events._get_running_loop() is not None:
            raise RuntimeError("a simulation cannot run while an event loop is running")
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._close_generator)
        asyncio.events._set_running_loop(self)
        self._stopping = False
        try:
            self._run()
        finally:
            asyncio.events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _run(self) -> None:
        ready = self._ready
        callbacks_left = MOST_CALLBACKS_AT_ONCE
        while not self._stopping:
            if not ready:
                if not self._let_time_pass():
                    return
                callbacks_left = MOST_CALLBACKS_AT_ONCE
            handle = ready.popleft()
            callback = handle.callback
            if callback is None:
                continue
            process = handle.process
            if process is not None and process.state is not _RUNNING:
                process.defer(handle)
                continue
            callbacks_left -= 1
            if not callbacks_left:
                raise SimulationStuckError(f"no end of callbacks at {self._now:.6f} s: {callback}")
            try:
                handle.context.run(callback, *handle.args)
            except ProcessEnded:
                continue
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"Exception in callback {callback!r}"
                handle.context.run(
                    self.call_exception_handler, {"message": message, "exception": error}
                )

    def _let_time_pass(self) -> bool:
        """Make ready what is due next; False if nothing is."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][2].callback is None:
            heappop(timers)
        if not timers:
            return False
        now = timers[0][0]
        if now > self.time_limit:
            raise SimulationTooLongError(f"it is not over after {self.time_limit:g} s")
        if now < self._now:  # looks at the clock have taken that long
            now = self._now
        self._now = now
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])
        return True

    def run_first(self, handles: Sequence[SimulatedHandle]) -> None:
        """Run these before anything that is ready: they were due before it, but held back."""
        self._ready.extendleft(reversed(handles))

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return asyncio.events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Nothing runs any more; who still asks for something gets silence."""
        self._closed = True
        self._ready = deque(maxlen=0)
        self._timers.clear()
        self._tasks.close(self)

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
        context = copy_context() if context is None else context
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        process = context.get(PROCESS)
        (self._tasks if process is None else process.tasks).keep(task)
        return task

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        del enabled

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        about = "".join(
            f"\n{key}: {value!r}"
            for key, value in context.items()
            if key not in ("message", "exception")
        )
        logger.error("%s%s", context["message"], about, exc_info=error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # Nobody misses what dies with its process, or with the world.
        if not self._closed and not isinstance(context.get("exception"), ProcessEnded):
            self.default_exception_handler(context)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        return
