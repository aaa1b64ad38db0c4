"""What the clients know of the user's threads, apart from the blocking classes themselves.

A blocking client runs its event loop in a thread of its own, and some of its work in the user's:
records go into the producer's buffer and come out of the consumer's there. Behind an async client
all of it happens in one thread, and none of this waits for anybody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

LOOK_UP: Final = 0.5
"""Python may miss a Ctrl-C that strikes just as a thread begins to wait: it looks up so often."""

new_lock = threading.Lock
this_thread = threading.get_ident


def block_until(
    add_done_callback: Callable[[Callable[[object], object]], object], timeout: float | None
) -> None:
    """Block this thread until the callback is called, or the time is up."""
    done = threading.Event()
    add_done_callback(lambda _: done.set())
    if timeout is not None:
        done.wait(timeout)
        return
    while not done.wait(LOOK_UP):
        pass
