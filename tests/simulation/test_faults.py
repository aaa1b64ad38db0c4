"""Every planted fault is found by an invariant that is named for it.

Faults are planted in the sources: machine code does not look up what it calls. Where modules are
compiled, a process without machine code tests it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.simulation import cluster_faults as cluster_faults
from tests.simulation import faults as faults
from tests.simulation.living import live
from tests.simulation.planting import FAULTS, Fault

from moldau.records.native import is_compiled
from moldau.source import VARIABLE
from moldau.testing.simulation.lives.life import STUCK


@pytest.mark.skipif(not is_compiled(), reason="the faults are planted in this process")
def test_every_fault_is_caught_in_plain_python() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.mark.skipif(is_compiled(), reason="faults are planted in the sources")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    broken: set[str] = set()
    for seed in range(fault.first, fault.first + fault.seeds):
        broken |= {violation.invariant for violation in live(seed, fault.circumstances).violations}
        if broken & fault.caught_by:
            return
    pytest.fail(f"not caught in {fault.seeds} lives, which broke {sorted(broken) or 'nothing'}")


def test_no_fault_is_caught_only_because_nothing_goes_on() -> None:
    assert all(fault.caught_by - {STUCK} for fault in FAULTS)
