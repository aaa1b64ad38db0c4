"""Every planted fault is found by an invariant that is named for it."""

from __future__ import annotations

import pytest
from tests.simulation.faults import FAULTS, Fault
from tests.simulation.living import live

from moldau.testing.simulation.lives.one_broker import STUCK


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    broken: set[str] = set()
    for seed in range(1, fault.seeds + 1):
        broken |= {violation.invariant for violation in live(seed, fault.circumstances).violations}
        if broken & fault.caught_by:
            return
    pytest.fail(f"not caught in {fault.seeds} lives, which broke {sorted(broken) or 'nothing'}")


def test_no_fault_is_caught_only_because_nothing_goes_on() -> None:
    assert all(fault.caught_by - {STUCK} for fault in FAULTS)
