"""What can be imported from ``moldau``, and what that costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import moldau
from moldau.client import errors


@pytest.mark.parametrize("name", sorted(moldau._PLACES))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(moldau, name).__name__ == name
    assert name in dir(moldau)


def test_every_error_of_a_client_is_public() -> None:
    assert {name for name in errors.__all__ if name.endswith("Error")} <= set(moldau._PLACES)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Produzer'"):
        _ = moldau.Produzer


def test_importing_the_package_loads_no_client() -> None:
    script = "import sys, moldau; print(sorted(m for m in sys.modules if m.startswith('moldau')))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "['moldau']\n"
