"""Through a Spark Connect server: the data source, the listener, and a pipeline."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from tests.client.conftest import topic_factory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.records import consume, produce
from tests.support.cli import CommandLine
from tests.support.process import ServerProcess
from tests.support.target import Target

from moldau.client.admin import Admin
from moldau.spark.java import find_java

FILE = """\
name = "upper"
[spark]
checkpoint = "CHECKPOINT"
[[sources]]
name = "records"
topic = "SOURCE"
bootstrap_servers = "SERVER"
starting_offsets = "earliest"
value_format = "string"
group_id = "connect"
[[steps]]
name = "shouted"
python = "more.py:shout"
from = "records"
[[sinks]]
from = "shouted"
topic = "TARGET"
bootstrap_servers = "SERVER"
"""
MORE = """\
from pyspark.sql import functions as F

@F.udf("string")
def loud(text):
    return text.upper() + "!"

def shout(frame):
    return frame.select("key", loud("value").alias("value"))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a Spark Connect server."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.memory": "512m",
        "spark.log.level": "INFO",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path),
        "spark.sql.warehouse.dir": str(tmp_path),
    }
    given = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    process = ServerProcess(
        [str(program), "--class", name, "--master", "local[1]", *given, "spark-internal"],
        tmp_path / "server.log",
        {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        },
    )
    try:
        ready = process.wait_for("Spark Connect server started at", 240)
        yield f"sc://{ready.rpartition(' ')[2]}"
    finally:
        process.kill()


def test_a_pipeline_runs_on_a_server(
    server: str,
    clusters: Callable[[str], Target],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bootstrap = clusters("moldau").bootstrap
    new_topic = topic_factory(bootstrap)
    source, target = new_topic(partitions=2), new_topic()
    values = [b"v%d" % number for number in range(40)]
    produce(bootstrap, source, [{"value": value} for value in values])
    text = FILE.replace("CHECKPOINT", str(tmp_path / "checkpoint")).replace("SERVER", bootstrap)
    file = tmp_path / "upper.toml"
    file.write_text(text.replace("SOURCE", source).replace("TARGET", target))
    (tmp_path / "more.py").write_text(MORE)
    cli = CommandLine(bootstrap, capsys)
    # A child: this process may have a session without a server, and has only one kind.
    with cli.start("pipeline", "run", str(file), "--master", server, "--once", "--json") as child:
        out, err = child.communicate(timeout=500)
    assert child.returncode == 0, err.decode()
    assert not err, err.decode()
    assert b'"rows":40' in out
    assert b'"lag":0' in out
    found = consume(bootstrap, target, 1)
    assert sorted(row.value or b"" for row in found) == sorted(one.upper() + b"!" for one in values)
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        offsets = admin.list_group_offsets("connect")
    assert sum(one.offset for one in offsets.values()) == 40
    # Once more, without a stream: what is written is counted there, too.
    file.write_text(file.read_text() + "\n[trigger]\nbatch = true\n")
    with cli.start("pipeline", "run", str(file), "--master", server, "--json") as child:
        out, err = child.communicate(timeout=500)
    assert child.returncode == 0, err.decode()
    assert json.loads(out)["rows"] == 40


def test_a_server_that_is_not_there_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = CommandLine("", capsys)
    file = tmp_path / "p.toml"
    file.write_text(FILE.replace("CHECKPOINT", str(tmp_path)))
    (tmp_path / "more.py").write_text(MORE)
    said = cli("pipeline", "run", str(file), "--master", "sc://127.0.0.1:1", code=1).err
    assert "No Spark Connect server answers at 127.0.0.1:1: Connection refused" in said
