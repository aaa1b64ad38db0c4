"""The per-record modules are tested both ways, compiled and plain, with all that is here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.records.strategies import INNER_RUN

from moldau.records.native import is_compiled
from moldau.source import VARIABLE

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.mark.skipif(INNER_RUN in os.environ, reason="this is the run the other way")
@pytest.mark.skipif(not is_compiled(), reason="there is only one way here")
def test_everything_holds_the_other_way_too() -> None:
    environment = {**os.environ, VARIABLE: "1", INNER_RUN: "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
    assert "failed" not in done.stdout
