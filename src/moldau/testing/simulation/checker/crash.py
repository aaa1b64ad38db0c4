"""The end of a broker's process that it did not want."""

from __future__ import annotations

from typing import NamedTuple


class Crash(NamedTuple):
    at: float
    node: str
    power: bool
    """Whether what was not synced may be lost."""
