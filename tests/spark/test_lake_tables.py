"""Real tables of Delta Lake and Apache Iceberg, with the release of PySpark that they are for.

``make test`` puts that release and the jars into .cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moldau.spark.pipeline.table_formats import DELTA, ICEBERG

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
[JARS] = [place.parent for place in CACHE.glob(f"lakehouse-*-{DELTA}-{ICEBERG}/.complete")]
SPARK = JARS.name.split("-")[1]
[RELEASE, *_] = [place.parent for place in sorted(CACHE.glob(f"pyspark-{SPARK}.*/.complete"))]


pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the program has found: one session for all tests."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.lake_program", str(tmp_path_factory.mktemp("lake")),
         ",".join(map(str, sorted(JARS.glob("*.jar"))))],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (RELEASE, ROOT, ROOT / "src"))),
            "SPARK_HOME": str(RELEASE / "pyspark"),
        },
        capture_output=True,
        timeout=1100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_each_batch_is_written_once(found: Any, kind: str) -> None:
    rows, counted = found[kind]["append"]
    assert rows == [["another", 0], *(["first", number] for number in range(3)), ["none", 0]]
    assert counted == 1
    assert found[kind]["complete"] == [["a", 3]]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_replace_those_with_the_same_keys(found: Any, kind: str) -> None:
    """NULL is a key, and the last one of a batch counts."""
    assert found[kind]["upsert"] == [["a", 3], ["b", 4], [None, 5]]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_columns_are_added_only_if_they_may_be(found: Any, kind: str) -> None:
    said, rows = found[kind]["refused"]
    assert said.startswith(" has no column x: add it to the table")
    assert rows == [["a", 1]]
    assert found[kind]["evolved"] == [["a", 1, None], ["a", 2, 2.5], ["a", None, 3.5]]
    # A row keeps what the last batch did not have.
    assert found[kind]["merged"] == [["a", 2, 3.5]]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_partitions_and_compaction(found: Any, kind: str) -> None:
    rows, in_folders = found[kind]["partitions"]
    assert rows == [["a", 1], ["b", 2], ["c", 2], ["d", 2]]
    assert in_folders == [True]
    assert found[kind]["compact"] == [5, 1, 6]


def test_a_pipeline_of_tables(found: Any) -> None:
    praha, wien, later = [1, 10, "Praha"], [2, 20, "Wien"], [1, 11, "Praha"]
    first, second, again = found["pipeline"]
    assert first == [[praha, wien]] * 3
    assert second == [[later, wien], [praha, later, wien], [praha, later, wien]]
    assert again == second
