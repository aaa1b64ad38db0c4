"""Waiting for a condition, never for time alone."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(
    condition: Callable[[], object], otherwise: str = "it never came true", timeout: float = 120.0
) -> None:
    """Return once the condition holds; fails with ``otherwise`` after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)
