"""What became of one life."""

from __future__ import annotations

from typing import NamedTuple

from moldau.testing.simulation.checker.violation import Violation


class Outcome(NamedTuple):
    seed: int
    violations: list[Violation]
    digest: str
    """Of everything that happened: the same in every run of the seed."""
    seconds: float
    """Of virtual time."""
    acknowledged: int
    """Records."""
    crashes: int
