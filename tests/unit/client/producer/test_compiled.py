"""The per-record modules of the producer run compiled and plain, and are tested both ways."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.records.native import is_compiled
from moldau.source import VARIABLE

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
INNER_RUN = "MOLDAU_TESTED_THE_OTHER_WAY"


@pytest.mark.skipif(INNER_RUN in os.environ, reason="this is the run the other way")
@pytest.mark.skipif(not is_compiled(), reason="there is only one way here")
def test_the_tests_pass_the_other_way() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", str(HERE)],
        env={**os.environ, VARIABLE: "1", INNER_RUN: "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
