"""The data source on older releases of PySpark.

``make test`` puts the oldest one into .cache, ``make test-pyspark-releases`` all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.conftest import NewTopicFactory
from tests.spark.records import committed_rows, consume
from tests.support.target import Target

ROOT = Path(__file__).parents[2]
RELEASES = sorted(file.parent for file in (ROOT / ".cache").glob("pyspark-*/.complete"))
COLUMNS = [
    "key binary",
    "value binary",
    "topic string",
    "partition int",
    "offset bigint",
    "timestamp timestamp",
    "timestampType int",
    "headers array<struct<key:string,value:binary>>",
]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_everything_works_once(
    release: Path, kafka: Target, kafka_topic: NewTopicFactory, tmp_path: Path
) -> None:
    topic, copy, exact = kafka_topic(partitions=2), kafka_topic(), kafka_topic(partitions=2)
    places = [str(release), str(ROOT), str(ROOT / "src")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "SPARK_HOME": str(release / "pyspark"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.release_program", kafka.bootstrap, str(tmp_path),
         topic, copy, exact],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=560,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    version = release.name.removeprefix("pyspark-")
    limits = not version.startswith("4.1.")
    assert found["version"] == version
    assert found["read"] == {
        "columns": COLUMNS, "headers": 50, "filtered": 10, "tasks": 1, "few": ["offset"],
    }  # fmt: skip
    assert (found["written"], found["sum"]) == (100, sum(range(100)))
    # Before 4.2 Spark does not say where the first batch begins, so that it cannot be limited.
    assert found["stream"] == ([30, 30, 30, 10] if limits else [100])
    assert found["now"] == ([30, 30, 30, 10] if limits else [100])
    assert found["committed"] == 100
    wanted = sorted(b'{"id": %d}' % number for number in range(100))
    assert sorted(row.value or b"" for row in consume(kafka.bootstrap, copy, 1)) == wanted
    exactly = committed_rows(kafka.bootstrap, exact, 2, 100)
    assert sorted(row.value or b"" for row in exactly) == wanted
