"""Spark Declarative Pipelines: the example project runs as it is, against a broker of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
from tests.client.conftest import topic_factory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.records import consume, produce
from tests.support.target import Target

from moldau.spark.java import find_java

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark-pipelines"


def test_the_example_project_runs(clusters: Callable[[str], Target], tmp_path: Path) -> None:
    broker = clusters("moldau")
    new_topic = topic_factory(broker.bootstrap)
    topic, to = new_topic(partitions=2), new_topic()
    visits = [{"key": b"/%d" % (number % 3), "value": b"v%d" % number} for number in range(30)]
    produce(broker.bootstrap, topic, visits)
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(
        spec.read_text()
        .replace("localhost:9092", broker.bootstrap)
        .replace("topic: visits", f"topic: {topic}")
        .replace("to: visits-by-page", f"to: {to}")
        .replace("/tmp/moldau-visits", str(tmp_path / "storage"))
    )
    done = subprocess.run(
        [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run",
         "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=1g",
         "--conf", "spark.sql.shuffle.partitions=2", "--spec", str(spec)],
        cwd=project, capture_output=True, text=True, timeout=500, check=False,
        env={**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable,
             "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": "", "JDK_JAVA_OPTIONS": JAVA_OPTIONS},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = consume(broker.bootstrap, to, 1)
    assert sorted((row.key, row.value) for row in found) == sorted(
        (one["key"], one["value"]) for one in visits
    )
