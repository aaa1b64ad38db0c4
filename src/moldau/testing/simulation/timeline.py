"""A life that went wrong, for people: what was broken, and what happened around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.recorder import Event

BEFORE: Final = 3.0
AFTER: Final = 1.0
"""Seconds around a violation of which everything is shown; of the rest only the milestones."""

OF_EACH: Final = 5
"""So many violations of an invariant are told."""

BYTES: Final = "→"
MILESTONES: Final = frozenset(
    {"starts", "killed", "power cut", "exits", "asked to stop", "paused", "does", "cut off",
     "healed", "reset", "slow", "cannot start", "failed", "unsynced", "warning", "error",
     "critical"}
)  # fmt: skip


def tell(
    violations: list[Violation], events: Iterable[Event], *, everything: bool = False
) -> Iterator[str]:
    """Returns the lines of the story, all of them if ``everything``."""
    yield "What was broken:" if violations else "Nothing was broken."
    told = violations if everything else list(_first_of_each(violations))
    for violation in told:
        yield f"  {violation}"
    if len(told) < len(violations):
        yield f"  … and {len(violations) - len(told)} more of these kinds"
    moments = [violation.at for violation in told if violation.at is not None]
    yield ""
    yield f"{'seconds':>12}  {'who':<12} {'what':<12}"
    left_out = 0
    for event in events:
        if everything or _is_worth_telling(event, moments):
            if left_out:
                yield _omission(left_out)
                left_out = 0
            yield str(event)
        elif event.kind != BYTES:  # what the bytes say is told beside them
            left_out += 1
    if left_out:
        yield _omission(left_out)


def _first_of_each(violations: list[Violation]) -> Iterator[Violation]:
    """Where much was lost, the first few say as much as hundreds."""
    count: Counter[str] = Counter()
    for violation in violations:
        count[violation.invariant] += 1
        if count[violation.invariant] <= OF_EACH:
            yield violation


def _is_worth_telling(event: Event, moments: list[float]) -> bool:
    if event.kind in MILESTONES:
        return True
    near = any(moment - BEFORE <= event.time <= moment + AFTER for moment in moments)
    return near and event.kind != BYTES


def _omission(events: int) -> str:
    return f"{'…':>12}  {events} events left out"
