"""The clickstream example, streaming, while its processes are killed: all stores are exact."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.client.conftest import NewTopicFactory, topic_factory
from tests.spark.clickstream import EXAMPLE, PARTITIONS, Clicks, Stores, generate
from tests.spark.java_options import QUICK
from tests.spark.kill_points import VICTIMS, Points, Victim, pids
from tests.spark.pipelines import MINUTE
from tests.spark.processes import of_session
from tests.spark.test_lake_tables import JARS, RELEASE, ROOT
from tests.support.postgres import Postgres
from tests.support.soak import SOAK
from tests.support.target import Target
from tests.support.waiting import eventually

KILLS = 20 if SOAK else 3
SEED = int(os.environ.get("MOLDAU_KILLS_SEED", "20"))
PATIENCE = 480.0
SPARK = f"""
[spark.config]
"spark.ui.enabled" = false
"spark.driver.memory" = "1g"
"spark.driver.extraJavaOptions" = "{QUICK}"
"spark.jars" = "{",".join(map(str, sorted(JARS.glob("*.jar"))))}"
"""


class Kill(NamedTuple):
    victim: Victim
    sign: str
    batches: int
    """That are done before it, since the start or the last kill."""


def plan(signs: list[str]) -> list[Kill]:
    """All victims in turn, all signs in an order by chance."""
    rng = random.Random(SEED)
    order = [sign for _ in range(0, KILLS, len(signs)) for sign in rng.sample(signs, len(signs))]
    return [
        Kill(victim, sign, rng.randrange(3) if SOAK else 0)
        for victim, sign in zip(cycle(VICTIMS), order[:KILLS], strict=False)
    ]


class Runs:
    """The example's command, started anew when it was killed."""

    def __init__(self, place: Path, parameters: dict[str, str]) -> None:
        self._place = place
        self._log = place / "log"
        text = (EXAMPLE / "clickstream.toml").read_text()
        (place / "clickstream.toml").write_text(text + SPARK)
        given = [part for item in parameters.items() for part in ("-p", "=".join(item))]
        # As often as on a cluster, so that a task survives its worker.
        master = "local[2,4]"
        self._command = [sys.executable, "-m", "moldau.cli", "pipeline", "run",
                         "clickstream.toml", *given, "--master", master, "--json"]  # fmt: skip
        self._child: subprocess.Popen[bytes] | None = None
        self.started = 0

    def ensure(self) -> None:
        if self._child is not None:
            return
        self.started += 1
        places = os.pathsep.join(map(str, (RELEASE, ROOT, ROOT / "src")))
        with self._log.open("ab") as out:
            self._child = subprocess.Popen(
                self._command,
                cwd=self._place,
                env={
                    **os.environ,
                    "PYTHONPATH": places,
                    "SPARK_HOME": str(RELEASE / "pyspark"),
                },
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        assert self._child is not None
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self._child.poll() is None, f"{what}: {self.said()}"
            assert time.monotonic() < end, f"{what}: {self.said()}"
            time.sleep(0.02)

    def kill(self, victim: Victim) -> int:
        assert self._child is not None
        killed = 0
        for pid in pids(self._child.pid, victim):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        if victim == "driver":
            self._await_end()
        return killed

    def stop(self) -> None:
        assert self._child is not None
        child = self._child
        child.terminate()
        self._await_end()
        assert child.returncode == 0, self.said()

    def end(self) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._child.pid, signal.SIGKILL)
            self._await_end()

    def _await_end(self) -> None:
        child, self._child = self._child, None
        assert child is not None
        child.wait(PATIENCE)
        # Two of them would be one too many for a checkpoint.
        eventually(lambda: not of_session(child.pid), "Spark outlives its driver", PATIENCE)

    def said(self) -> str:
        return self._log.read_text()[-4000:]


@contextmanager
def running(place: Path, parameters: dict[str, str]) -> Iterator[Runs]:
    runs = Runs(place, parameters)
    try:
        yield runs
    finally:
        runs.end()


@pytest.mark.timeout(7200 if SOAK else 2400)
def test_all_stores_are_exact_after_kills(
    moldau: Target, topics: NewTopicFactory, kafka: Target, tmp_path: Path
) -> None:
    """Clicks come from Moldau; results go to Apache Kafka, too, which has transactions."""
    topic, to = topics(partitions=PARTITIONS), topic_factory(kafka.bootstrap)(partitions=PARTITIONS)
    clicks = Clicks(moldau.bootstrap, topic, SEED)
    with Postgres() as postgres:
        folder, database = tmp_path / "stores", postgres.url("clickstream")
        stores = Stores(folder, database, kafka.bootstrap, to, moldau.bootstrap, f"{topic}.bad")
        parameters = {
            "source": moldau.bootstrap,
            "target": kafka.bootstrap,
            "topic": topic,
            "to": to,
            "exactly_once": "true",
            "database": database,
            "folder": str(folder),
            "every": "10ms",
        }
        with (
            closing(Points(stores, tmp_path / "checkpoints" / "clickstream")) as points,
            running(tmp_path, parameters) as runs,
        ):
            _kill_again_and_again(runs, clicks, points)
            end = clicks.close()
            runs.ensure()
            runs.wait(lambda: points.watermark(done=True) > end - 11 * MINUTE, "the end")
            runs.stop()
        expected, found = clicks.expected(), stores.found()
    assert expected.topic.total() > len(generate.PAGES)
    assert found.beside(expected) == {}


def _kill_again_and_again(runs: Runs, clicks: Clicks, points: Points) -> None:
    for number, kill in enumerate(plan(list(points.signs)), 1):
        begun = time.monotonic()
        runs.ensure()
        clicks.late(points.watermark())
        clicks.more()
        for sign in (*["batch done"] * kill.batches, kill.sign):
            _await_sign(runs, clicks, points, sign)
        killed, batch = runs.kill(kill.victim), points.planned()
        took = time.monotonic() - begun
        print(f"{number}: {kill.sign}, batch {batch}: {kill.victim} ({killed}), {took:.1f} s")


def _await_sign(runs: Runs, clicks: Clicks, points: Points, name: str) -> None:
    """Clicks go on coming meanwhile: some for each batch."""
    sign = points.signs[name]
    known, planned = sign(), points.planned()

    def seen() -> bool:
        nonlocal planned
        if points.planned() > planned:
            planned = points.planned()
            clicks.more()
        return not known.issuperset(sign())

    runs.wait(seen, f"{name} was never seen")
