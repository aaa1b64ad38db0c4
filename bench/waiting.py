"""Waiting until something is so."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.requests import LoadError


def until(done: Callable[[], bool], what: str, *, within: float, every: float = 0.01) -> float:
    """Returns how many seconds it took; LoadError if it takes longer than ``within``."""
    started = time.monotonic()
    while not done():
        if time.monotonic() - started > within:
            raise LoadError(f"{what}: not within {within:.0f} s")
        time.sleep(every)
    return time.monotonic() - started
