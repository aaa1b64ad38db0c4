"""The examples of docs/spark.md as they stand, and the declarative project of pipelines."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.processes import of_session
from tests.spark.records import consume, produce
from tests.support.moldau import Moldau
from tests.support.process import free_ports
from tests.support.waiting import eventually

from moldau.client.admin import Admin
from moldau.spark.java import find_java

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark.md"
PIPELINES = ROOT / "docs" / "pipelines-reference.md"
ADDRESS = "127.0.0.1:9092"
PATIENCE = 300.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moldau]:
    started = Moldau(tmp_path_factory.mktemp("broker"))
    started.start()
    try:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        names = ("orders", "heard", "people", "people.bad", "shouted")
        topics = [NewTopic(name, 1) for name in names]
        for future in admin.create_topics(topics).values():
            future.result(60)
        yield started
    finally:
        started.stop()


def blocks(page: Path, language: str, heading: str = "") -> list[tuple[int, str]]:
    """The line before each block, and the block, of a page or of what is under a heading."""
    text = page.read_text()
    begin = text.index(f"\n{heading}\n") + 1 if heading else 0
    end = text.find("\n## ", begin) if heading else -1
    return [
        (text[: found.start()].count("\n") + 1, found[1])
        for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if begin <= found.start() and (end < 0 or found.start() < end)
    ]


def test_the_examples_run(spark: SparkSession, broker: Moldau) -> None:
    names: dict[str, object] = {"spark": spark}
    for line, block in blocks(PAGE, "python"):
        # Compiled with the lines of the page, so that a failure points there.
        code = block.replace(ADDRESS, broker.bootstrap)
        exec(compile("\n" * line + code, str(PAGE), "exec"), names)
    assert len(consume(broker.bootstrap, "people.bad", 1)) == 1
    shouted = consume(broker.bootstrap, "shouted", 1)
    assert sorted({row.value or b"" for row in shouted})[:2] == [b"ORDER 0", b"ORDER 1"]
    assert len(shouted) == 1000


def test_a_program_with_a_listener_ends_without_a_word(broker: Moldau, tmp_path: Path) -> None:
    # Of a topic of its own: the other examples count what is in theirs.
    produce(broker.bootstrap, "heard", [{"value": b"one"}])
    [(_, block)] = [one for one in blocks(PAGE, "python") if "GroupOffsetListener" in one[1]]
    program = tmp_path / "program.py"
    options = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    }
    program.write_text(
        "from moldau.spark.session import spark_session\n"
        f"spark = spark_session('program', master='local[1]', config={options!r})\n"
        + block.replace(ADDRESS, broker.bootstrap)
        .replace("orders-archive", "ending")
        .replace('"orders"', '"heard"')
    )
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert not re.search(r"Traceback|Exception| ERROR \w|^\s+at ", said, re.MULTILINE), said
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        [offset] = admin.list_group_offsets("ending").values()
    assert offset.offset == len(consume(broker.bootstrap, "heard", 1)) == 1


@contextmanager
def shell(text: str, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What it starts runs until the end of the block."""
    with (
        log.open("wb") as out,
        subprocess.Popen(
            ["bash", "-eu", "-c", f"{text}\nwait"],
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "JAVA_HOME": str(find_java().home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
                **environment,
            },
            start_new_session=True,
        ) as child,
    ):
        try:
            yield child
        finally:
            with suppress(ProcessLookupError):  # all of it may have ended by itself
                os.killpg(child.pid, signal.SIGTERM)
            eventually(lambda: not of_session(child.pid), log.read_text()[-2000:])


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


CHECK = """
from pyspark.sql import SparkSession
from moldau.spark.session import spark_session
spark = spark_session("check", master="{master}", config={config!r})
rows = (spark.read.format("moldau").option("kafka.bootstrap.servers", "{bootstrap}")
        .option("subscribe", "{topic}").load().count())
print("rows", rows)
spark.stop()
"""


def counted(master: str, bootstrap: str, config: dict[str, str], place: Path) -> str:
    """By a program of its own on that master, of a topic with three records."""
    topic = f"counted-{master.partition(':')[0]}"
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        from moldau.client.admin.types import NewTopic as Topic

        admin.create_topics([Topic(topic, 1)])
    produce(bootstrap, topic, [{"value": b"x"}] * 3)
    text = CHECK.format(master=master, config=config, bootstrap=bootstrap, topic=topic)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=place, capture_output=True, text=True, timeout=PATIENCE
    )
    return done.stdout or done.stderr


def test_a_standalone_cluster_from_pip(broker: Moldau, tmp_path: Path) -> None:
    block, _ = [one for _, one in blocks(PAGE, "sh", "## Clusters to try")]
    master, ui, worker_ui = free_ports(3)
    small = {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_CORES": "1",
        "SPARK_WORKER_MEMORY": "600m",
        "SPARK_MASTER_WEBUI_PORT": str(ui),
        "SPARK_WORKER_WEBUI_PORT": str(worker_ui),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    config = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    }
    with shell(block.replace("7077", str(master)), small, tmp_path / "log"):
        eventually(lambda: is_open(master), (tmp_path / "log").read_text()[-2000:])
        said = counted(f"spark://127.0.0.1:{master}", broker.bootstrap, config, tmp_path)
        assert said == "rows 3\n", (tmp_path / "log").read_text()[-2000:]


def test_a_connect_server_from_pip(broker: Moldau, tmp_path: Path) -> None:
    _, block = [one for _, one in blocks(PAGE, "sh", "## Clusters to try")]
    [port] = free_ports(1)
    more = f"--master local[1] --conf spark.ui.enabled=false --conf spark.driver.memory=512m \
        --conf spark.connect.grpc.binding.port={port}"
    with shell(block.replace("--wait", f"--wait {more}"), {}, tmp_path / "log"):
        eventually(lambda: is_open(port), "no server")
        said = counted(f"sc://127.0.0.1:{port}", broker.bootstrap, {}, tmp_path)
        assert said == "rows 3\n", (tmp_path / "log").read_text()[-2000:]


def test_the_declarative_project_runs(broker: Moldau, tmp_path: Path) -> None:
    """With the topics and the extra that the page names, which this Python has."""
    [(_, block)] = blocks(PIPELINES, "sh", "## Spark Declarative Pipelines")
    install, _, rest = block.partition("\n")
    assert install == "pip install 'pyspark[pipelines]'"
    shutil.copytree(ROOT / "examples" / "spark-pipelines", tmp_path / "examples/spark-pipelines")
    spec = tmp_path / "examples/spark-pipelines/spark-pipeline.yml"
    text = spec.read_text()
    assert install in text
    assert "moldau topic create" in text
    spec.write_text(
        text.replace("localhost:9092", broker.bootstrap).replace(
            "/tmp/moldau-visits", str(tmp_path / "storage")
        )
    )
    environment = {
        "MOLDAU_BOOTSTRAP": broker.bootstrap,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "SPARK_CONF_DIR": str(tmp_path),
    }
    # The Python process of a stream has ten seconds to connect to Spark, which no setting changes
    # and a busy machine may not give it: flows are begun again more often than by default.
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.ui.enabled false\nspark.driver.memory 1g\nspark.sql.shuffle.partitions 2\n"
        "spark.sql.pipelines.maxFlowRetryAttempts 20\n"
    )
    with shell(rest, environment, tmp_path / "log") as child:
        assert child.wait(PATIENCE) == 0, (tmp_path / "log").read_text()[-3000:]
    found = consume(broker.bootstrap, "visits-by-page", 1)
    assert sorted((row.key, row.value) for row in found) == [
        (b"/help", b"bob"), (b"/home", b"ann"), (b"/home", b"eva"),
    ]  # fmt: skip
