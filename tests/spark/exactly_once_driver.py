"""Drivers as processes of their own, which faults may kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.spark.standalone import PYTHONPATH, ROOT


def run_driver(*arguments: str) -> bool:
    """Whether it was killed; otherwise the query has come to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.exactly_once_program", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.DEVNULL,
        timeout=7200,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0
