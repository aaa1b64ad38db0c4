"""What the package hands out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.testing import simulation


@pytest.mark.parametrize("name", dir(simulation))
def test_every_name_is_what_it_says(name: str) -> None:
    assert getattr(simulation, name).__name__ == name


def test_other_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        _ = simulation.Broker


def test_no_broker_is_loaded_before_it_is_asked_for() -> None:
    code = "import sys, moldau.testing.simulation; sys.exit('moldau.broker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
