"""What can be imported from ``moldau``, and what that costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import moldau
from moldau import version
from moldau.client import errors


@pytest.mark.parametrize("name", sorted(moldau._PLACES.keys() - {"__version__"}))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(moldau, name).__name__ == name
    assert name in dir(moldau)


def test_the_version_is_there() -> None:
    assert moldau.__version__ == version.__version__


def test_every_error_of_a_client_is_public() -> None:
    assert set(errors.__all__) <= set(moldau._PLACES)


def test_a_star_brings_all_of_them() -> None:
    found: dict[str, object] = {}
    exec("from moldau import *", found)
    assert found.keys() - {"__builtins__"} == set(moldau._PLACES)
    assert found["Producer"] is moldau.Producer


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(moldau.__file__).read_text())
    (typed,) = (one for one in tree.body if isinstance(one, ast.If))
    seen = {
        alias.asname: one.module
        for one in typed.body
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
    }
    assert seen == moldau._PLACES


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Produzer'"):
        _ = moldau.Produzer


def test_importing_the_package_loads_nothing_else() -> None:
    script = "import sys, moldau; print(sorted(m for m in sys.modules if m.startswith('moldau')))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=150
    )
    assert done.stdout == "['moldau', 'moldau.source']\n"
