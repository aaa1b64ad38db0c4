"""Warming up until the figures are steady: a JVM compiles what is used, and that takes its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

STEADY_ROUNDS = 3
WITHIN = 0.05


def unsteadiness(figures: Sequence[float]) -> float:
    """How far the last rounds are apart, as a share of the smallest; infinite for too few."""
    last = figures[-STEADY_ROUNDS:]
    if len(last) < STEADY_ROUNDS:
        return float("inf")
    return max(last) / max(min(last), 1e-12) - 1


class Warmth(NamedTuple):
    """What warming up took, and which figures it has not made steady."""

    seconds: float
    rounds: int
    unsteady: Mapping[str, float]

    def text(self, name: str) -> str:
        took = f"after {self.seconds:.0f} s, {self.rounds} rounds"
        if not self.unsteady:
            each = f"the last {STEADY_ROUNDS} of each figure within {WITHIN:.0%}"
            return f"{name}: warm {took}, {each}."
        if self.rounds < STEADY_ROUNDS:
            return f"{name}: {took}, too few to tell whether it was warm."
        apart = ", ".join(f"{title} {share:.0%}" for title, share in self.unsteady.items())
        limit = f"the limit of time; the last {STEADY_ROUNDS} apart by: {apart}"
        return f"{name}: **not steady** {took}, {limit}."


def warm(
    work: Mapping[str, Callable[[], float]],
    limit_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Warmth:
    """Runs each piece of work in turn, until the figure that it returns is steady or time is up.

    A round is always finished, so that every path has been used as often as any other that is not
    steady yet. With the CPU time of a process as the clock, a busy machine takes nothing of it.
    """
    figures: dict[str, list[float]] = {title: [] for title in work}
    started, limit = time.monotonic(), clock() + limit_s
    rounds = 0
    waiting = list(work)
    while waiting and (rounds == 0 or clock() < limit):
        rounds += 1
        for title in waiting:
            figures[title].append(work[title]())
        waiting = [title for title in waiting if unsteadiness(figures[title]) > WITHIN]
    unsteady = {title: unsteadiness(figures[title]) for title in waiting}
    return Warmth(time.monotonic() - started, rounds, unsteady)
