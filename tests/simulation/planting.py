"""Planting faults: changes to the product's own code, one at a time, for as long as a test lasts.

``caught_by`` names the invariants that tell of a fault, one of which must within so many seeds of
its circumstances, from the first that is named on; ``test_lives_*.py`` and
``test_cluster_lives.py`` live ten times as many of them without any fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
from tests.simulation.circumstances import Circumstances

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    plant: Plant
    circumstances: Circumstances
    caught_by: frozenset[str]
    seeds: int
    """Within so many of them it is caught."""
    first: int
    """Of them."""

    @property
    def name(self) -> str:
        return self.plant.__name__


FAULTS: Final[list[Fault]] = []


def fault(
    circumstances: Circumstances, *caught_by: str, seeds: int, first: int = 1
) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        FAULTS.append(Fault(plant, circumstances, frozenset(caught_by), seeds, first))
        return plant

    return register


def clean_seeds(circumstances: Circumstances) -> range:
    """Returns ten times as many seeds as the faults of the circumstances are caught within."""
    most = max(fault.seeds for fault in FAULTS if fault.circumstances is circumstances)
    return range(1, 10 * most + 1)
