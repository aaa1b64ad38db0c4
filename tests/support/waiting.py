"""Waiting for a condition, never for time alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    condition: Callable[[], T | None],
    otherwise: str = "it never came true",
    timeout: float = 120.0,
) -> T:
    """Returns what the condition returns once it holds; fails with ``otherwise`` after ``timeout``
    seconds.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)
    return value
