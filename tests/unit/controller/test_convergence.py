"""Whatever is lost, late or doubled: every broker ends with what the controller knows."""

from __future__ import annotations

import pytest
from tests.unit.controller.word_model import (
    DEPOSED_OBEYED,
    NO_CONVERGENCE,
    REPLICA_LOST,
    BrokenPromiseError,
    Faults,
    Life,
)

SEEDS = range(300)
SEEDS_WITH_A_FAULT = range(30)


def broken_promises(faults: Faults, *, converges: bool = True) -> set[str]:
    """Returns what lives with a fault break, each by its first."""
    broken: set[str] = set()
    for seed in SEEDS_WITH_A_FAULT:
        try:
            Life(seed, faults).run(converges=converges)
        except BrokenPromiseError as promise:
            broken.add(str(promise))
    return broken


@pytest.mark.parametrize("partitions_per_update", [1, 1000])
def test_brokers_converge_and_lose_nothing(
    partitions_per_update: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.controller.outbox.PARTITIONS_PER_UPDATE", partitions_per_update)
    for seed in SEEDS:
        try:
            Life(seed).run()
        except BrokenPromiseError as promise:
            raise AssertionError(f"seed {seed}: {promise}") from promise


@pytest.mark.parametrize(
    ("faults", "promise"),
    [
        (Faults(forgets_lost_updates=True), NO_CONVERGENCE),
        (Faults(ignores_epochs=True), DEPOSED_OBEYED),
        (Faults(ignores_sequence=True), NO_CONVERGENCE),
        (Faults(ignores_sequence=True, ignores_topic_ids=True), REPLICA_LOST),
    ],
)
def test_a_planted_fault_is_noticed(faults: Faults, promise: str) -> None:
    assert promise in broken_promises(faults)


def test_topic_ids_alone_save_a_topic_that_was_made_again_from_a_late_order() -> None:
    """Also where nothing else holds a late message back."""
    faults = Faults(ignores_sequence=True)
    assert broken_promises(faults, converges=False) == set()
