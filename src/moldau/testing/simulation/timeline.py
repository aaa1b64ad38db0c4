"""A life that went wrong, for people: what was broken, and what happened around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.recorder import Event

BEFORE: Final = 3.0
AFTER: Final = 1.0
"""Seconds around a violation of which everything is shown; of the rest only the milestones."""

BYTES: Final = "→"
MILESTONES: Final = frozenset(
    {"starts", "killed", "power cut", "exits", "paused", "does", "cut off", "healed", "reset",
     "cannot start", "failed", "unsynced", "warning", "error", "critical"}
)  # fmt: skip


def tell(violations: list[Violation], events: Iterable[Event]) -> Iterator[str]:
    """Returns the lines of the story."""
    yield "What was broken:"
    for violation in violations:
        yield f"  {violation}"
    moments = [violation.at for violation in violations if violation.at is not None]
    yield ""
    yield f"{'seconds':>12}  {'who':<14} {'what':<12}"
    left_out = 0
    for event in events:
        if event.kind == BYTES:
            continue  # what the bytes say is told beside them
        near = any(moment - BEFORE <= event.time <= moment + AFTER for moment in moments)
        if near or event.kind in MILESTONES:
            if left_out:
                yield f"{'…':>12}  {left_out} events left out"
                left_out = 0
            yield str(event)
        else:
            left_out += 1
