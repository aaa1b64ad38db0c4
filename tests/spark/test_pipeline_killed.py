"""A pipeline with three sinks, killed at several points: exact results, and one letter for each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.processes import of_session
from tests.spark.visits import LAST, expected, trial_on, windows
from tests.support.target import Target

SPARK = f"""
[spark]
master = "local[2]"
[spark.config]
"spark.ui.enabled" = false
"spark.driver.memory" = "512m"
"spark.driver.extraJavaOptions" = "{JAVA_OPTIONS}"
"""
PATIENCE = 240.0
ROWS = 600


def test_results_are_exact_after_kills(moldau: Target, tmp_path: Path) -> None:
    """Six records are bad, some of them in batches that are given up."""
    trial = trial_on(moldau.bootstrap, tmp_path)
    text = trial.text.replace(
        "dead_letter_topic", "max_offsets_per_trigger = 60\ndead_letter_topic"
    )
    (tmp_path / "visits.toml").write_text(text + SPARK)
    trial.produce(range(ROWS))
    commits = tmp_path / "checkpoints" / "visits" / "quick+named+pages" / "commits"
    files = tmp_path / "quick"

    def batches() -> int:
        return len(list(commits.glob("[0-9]*")))

    # A letter of a batch that is not written; files of one that is not noted; between batches.
    _kill_when(tmp_path, lambda: bool(trial.letters()))
    _kill_when(tmp_path, lambda: len(list(files.glob("*.parquet"))) > 2 * batches())
    seen = batches()
    _kill_when(tmp_path, lambda: batches() > seen + 2)
    trial.close_windows()
    done = _run(tmp_path, "--once").wait(PATIENCE)
    assert done == 0, (tmp_path / "out").read_text()
    expect = expected(range(ROWS))
    expect[(LAST["page"], LAST["took"])] += 2
    assert trial.in_files() == expect
    assert trial.in_table() == windows(range(ROWS))
    assert trial.letters() == sorted((n % 2, n // 2) for n in range(ROWS) if n % 100 == 7)
    # Without transactions: at least once.
    written = trial.in_topic()
    assert set(written) == set(expect)
    assert written >= expect


def _run(place: Path, *more: str) -> subprocess.Popen[bytes]:
    with (place / "out").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "moldau.cli", "pipeline", "run", "visits.toml", "--json", *more],
            cwd=place,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def _kill_when(place: Path, condition: Callable[[], bool]) -> None:
    """kill -9 of the driver and all that it started, as soon as it is so."""
    child = _run(place)
    end = time.monotonic() + PATIENCE
    try:
        while not condition():
            assert child.poll() is None, (place / "out").read_text()
            assert time.monotonic() < end, (place / "out").read_text()
            time.sleep(0.01)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(PATIENCE)
    while of_session(child.pid):
        assert time.monotonic() < end, "processes are left"
        time.sleep(0.05)
