"""Parquet of a pipeline whose driver or JVM is killed again and again, read without Spark."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from tests.client.conftest import topic_factory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.processes import of_session
from tests.spark.records import produce
from tests.support.cli import CommandLine
from tests.support.soak import SOAK
from tests.support.target import Target
from tests.support.waiting import eventually

KILLS = 20 if SOAK else 3

FILE = """\
name = "killed"
[spark]
config = { "spark.ui.enabled" = false, "spark.driver.memory" = "512m" }
[trigger]
every = "10ms"
[[sources]]
name = "records"
topic = "TOPIC"
bootstrap_servers = "SERVER"
starting_offsets = "earliest"
value_format = "string"
[[steps]]
name = "numbers"
sql = "SELECT CAST(value AS INT) AS n, CAST(value AS INT) % 3 AS part FROM records"
[[sinks]]
name = "plain"
from = "numbers"
parquet = "plain"
[[sinks]]
name = "parts"
from = "numbers"
parquet = "parts"
partition_by = ["part"]
compact = true
"""
PLACES = (
    ".plain.staging/*/*/_temporary",
    ".plain.staging/*/*/*.parquet",
    ".parts.staging/*/*/part=1/*.parquet",
    "plain/*.parquet",
    "parts/part=2/*.parquet",
    "checkpoints/killed/plain/offsets/*",
    "checkpoints/killed/parts/commits/*",
)
"""What comes into being in the course of a batch."""


class Seen:
    """Notices what is new at a place; records go on coming meanwhile."""

    def __init__(self, directory: Path, place: str, more: Callable[[], None]) -> None:
        self._directory = directory
        self._place = place
        self._known = set(directory.glob(place))
        self._more = more
        self._calls = 0

    def new_or_ended(self, child: subprocess.Popen[bytes]) -> bool:
        if self._calls % 50 == 0:
            self._more()
        self._calls += 1
        new = not self._known.issuperset(self._directory.glob(self._place))
        return new or child.poll() is not None


def is_gone(session: int) -> bool:
    return not of_session(session)


@pytest.mark.timeout(3600 if SOAK else 1200)
def test_every_row_is_there_once_for_every_reader(
    clusters: Callable[[str], Target],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
    broker = clusters("moldau")
    topic = topic_factory(broker.bootstrap)(partitions=2)
    file = tmp_path / "killed.toml"
    file.write_text(FILE.replace("TOPIC", topic).replace("SERVER", broker.bootstrap))
    cli = CommandLine(broker.bootstrap, capsys)
    command = ("pipeline", "run", str(file), "--master", "local[2]", "--json")
    rng = random.Random(7)
    written = 0

    def more() -> None:
        nonlocal written
        numbers = range(written, written + 60)
        produce(
            broker.bootstrap, topic, [{"value": b"%d" % n, "partition": n % 2} for n in numbers]
        )
        written += 60

    for _ in range(KILLS):
        more()
        with cli.start(*command, cwd=tmp_path, start_new_session=True) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            for _ in range(rng.randrange(3)):  # batches that end well, of either sink
                assert child.stdout.readline(), child.stderr.read()[-2000:]
                more()
            place = rng.choice(PLACES)
            seen = Seen(tmp_path, place, more)
            eventually(partial(seen.new_or_ended, child), timeout=240)
            assert child.poll() is None, child.stderr.read()[-2000:]
            java = [one.pid for one in of_session(child.pid) if one.name == "java"]
            os.kill(rng.choice([child.pid, *java[:1]]), signal.SIGKILL)
            child.communicate(timeout=240)
        # Two of them would be one too many for a checkpoint.
        eventually(partial(is_gone, child.pid), "Spark outlives its driver", timeout=240)
    with cli.start(*command, "--once", cwd=tmp_path) as child:
        _, err = child.communicate(timeout=500)
    assert child.returncode == 0, err.decode()
    for folder in ("plain", "parts"):
        directory = tmp_path / folder
        found = ds.dataset(directory, format="parquet").to_table()["n"].to_pylist()
        assert sorted(found) == list(range(written)), folder
        rows = duckdb.execute(f"SELECT n FROM '{directory}/**/*.parquet'").fetchall()
        assert sorted(n for (n,) in rows) == list(range(written)), folder
        assert all(one.stat().st_size for one in directory.rglob("*.parquet"))
    assert not list(tmp_path.glob(".*.staging/*/*"))
