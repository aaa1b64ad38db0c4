"""The listener for programs that do not use asyncio."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self

from moldau.client.listener.async_listener import AsyncListener
from moldau.machine.real.loop import run

P = ParamSpec("P")


def _with_arguments_of(
    other: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """For type checkers and ``help()``: the same arguments, and the same words about them."""

    def decorate(method: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return functools.wraps(other.__init__)(method)

    return decorate


class Listener:
    """``Listener("orders", handle, bootstrap_servers=…, group_id=…).run()``.

    Takes what :class:`AsyncListener` takes. ``run`` listens in this thread; as a context manager,
    or after ``start``, it listens in a thread of its own.
    """

    @_with_arguments_of(AsyncListener)
    def __init__(self, *args: Any, **settings: Any) -> None:
        self._inner = AsyncListener(*args, **settings)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Listen until ``stop``, and, in the main thread, until SIGINT or SIGTERM.

        Running handlers then finish, and what is done is committed. Raises what made it give up.
        """
        run(self._run())

    def start(self) -> None:
        """Listen in the background."""
        if self._thread is not None:
            raise RuntimeError("the listener was started before")
        self._thread = threading.Thread(target=self._run_in_thread, name="moldau listener")
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """End it; waits if it was started in the background, and raises what made it give up."""
        self._inner.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            error, self._error = self._error, None
            if error is not None:
                raise error

    @property
    def is_running(self) -> bool:
        """Whether a listener that was started in the background still listens."""
        return self._thread is not None and self._thread.is_alive()

    def metrics(self) -> dict[str, float]:
        """Records by what became of them, and how many handlers run now."""
        return self._inner.metrics()

    def __repr__(self) -> str:
        return repr(self._inner).replace("AsyncListener", "Listener")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def _run(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._inner._machine.signals.on_stop(self._inner.stop)
        await self._inner.run()

    def _run_in_thread(self) -> None:
        try:
            run(self._run())
        except BaseException as error:
            self._error = error
