"""The same file on a Spark standalone cluster of two workers, by command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.client.conftest import topic_factory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.records import consume, produce
from tests.spark.standalone import StandaloneCluster
from tests.support.cli import CommandLine
from tests.support.target import Target

FILE = """\
name = "upper"
[parameters]
bootstrap = ""
topic = ""
to = ""
checkpoint = ""
folder = ""
[spark]
checkpoint = "${checkpoint}"
[spark.config]
"spark.ui.enabled" = false
"spark.executor.memory" = "512m"
"spark.driver.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
"spark.driver.extraJavaOptions" = "JAVA_OPTIONS"
"spark.executor.extraJavaOptions" = "JAVA_OPTIONS"
"spark.cores.max" = 2
"spark.scheduler.minRegisteredResourcesRatio" = 1.0
"spark.scheduler.maxRegisteredResourcesWaitingTime" = "300s"
[[sources]]
name = "records"
topic = "${topic}"
bootstrap_servers = "${bootstrap}"
starting_offsets = "earliest"
value_format = "string"
[[steps]]
name = "upper"
sql = "SELECT key, upper(value) AS value FROM records"
[[steps]]
name = "once"
deduplicate = { from = "records", keys = ["key"], watermark = "1h" }
[[sinks]]
from = "once"
parquet = "${folder}"
[[sinks]]
from = "upper"
topic = "${to}"
bootstrap_servers = "${bootstrap}"
"""


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[StandaloneCluster]:
    directory = tmp_path / "standalone"
    directory.mkdir()
    with ExitStack() as stack:
        yield StandaloneCluster(directory, stack, ["127.0.0.1"] * 2)


def test_two_workers_run_the_same_file(
    standalone: StandaloneCluster,
    clusters: Callable[[str], Target],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = clusters("moldau")
    new_topic = topic_factory(broker.bootstrap)
    topic, to = new_topic(partitions=2), new_topic(partitions=2)
    records: list[dict[str, Any]] = [
        {"key": b"%d" % number, "value": b"v%d" % number, "partition": number % 2}
        for number in range(200)
    ]
    produce(broker.bootstrap, topic, records)
    file = tmp_path / "upper.toml"
    file.write_text(FILE.replace("JAVA_OPTIONS", JAVA_OPTIONS))
    given = {"bootstrap": broker.bootstrap, "topic": topic, "to": to,
             "checkpoint": str(tmp_path / "checkpoint"),
             "folder": str(tmp_path / "rows")}  # fmt: skip
    options = [part for item in given.items() for part in ("-p", "=".join(item))]
    cli = CommandLine(broker.bootstrap, capsys)
    master = ("--master", standalone.url, "--once", "--json", "--timings")
    with cli.start("pipeline", "run", str(file), *options, *master) as child:
        out, err = child.communicate(timeout=500)
    assert child.returncode == 0, err.decode()
    assert b'"rows":200' in out
    spent = [line.split("  ")[0] for line in err.decode().splitlines()]
    assert spent[-5:] == ["sources, steps, sinks", "first batch", "after that", "the end", "in all"]
    found = consume(broker.bootstrap, to, 2)
    assert sorted((row.key, row.value) for row in found) == sorted(
        (one["key"], one["value"].upper()) for one in records
    )
    executors = [list(work.glob("app-*/*/stderr")) for work in standalone.work]
    assert all(executors), "each worker ran an executor"
    # After a shuffle there is a partition for each core of the cluster, and not 200 of them.
    assert len({file.name[:10] for file in (tmp_path / "rows").glob("part-*.parquet")}) <= 2
    assert len(pq.read_table(tmp_path / "rows")) == 200
    states = cli("pipeline", "status", str(file), *options, "--json").json["sinks"]
    state = next(one for one in states if one["sink"] == "upper")
    assert (state["batch"], state["lag"]) == (0, 0)
    assert state["offsets"] == {topic: {"0": 100, "1": 100}}
