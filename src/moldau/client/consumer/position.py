"""A place in a partition's log."""

from __future__ import annotations

from typing import Final, NamedTuple

NO_EPOCH: Final = -1


class Position(NamedTuple):
    """The next offset to read."""

    offset: int
    offset_epoch: int = NO_EPOCH
    """Leader epoch of the record before it, as far as known: what a new leader is asked about."""
