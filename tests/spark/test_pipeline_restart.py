"""``moldau pipeline run`` as a process that is watched, killed, restarted and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import topic_factory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.processes import command_of, of_session
from tests.spark.records import produce
from tests.support.cli import CommandLine
from tests.support.process import free_port
from tests.support.target import Target
from tests.support.waiting import eventually

FILE = """\
name = "copy"
metrics = "127.0.0.1:PORT"
[restart]
policy = "on-failure"
attempts = 3
backoff = "100ms"
[spark]
master = "local[1]"
[spark.config]
"spark.driver.memory" = "512m"
"spark.driver.extraJavaOptions" = "JAVA_OPTIONS"
[[sources]]
name = "records"
topic = "TOPIC"
bootstrap_servers = "SERVER"
starting_offsets = "earliest"
[[sinks]]
from = "records"
name = "files"
parquet = "rows"
"""
PATIENCE = 240.0


def test_it_is_watched_killed_restarted_and_stopped(
    clusters: Callable[[str], Target],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    bootstrap = clusters("moldau").bootstrap
    topic, port = topic_factory(bootstrap)(), free_port()
    produce(bootstrap, topic, [{"value": b"x"}] * 20)
    text = FILE.replace("TOPIC", topic).replace("SERVER", bootstrap)
    (tmp_path / "copy.toml").write_text(
        text.replace("PORT", str(port)).replace("JAVA_OPTIONS", JAVA_OPTIONS)
    )
    cli = CommandLine(bootstrap, capsys)

    def status() -> Any:
        return cli("pipeline", "status", "copy.toml", "--json").json

    def metric(name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        [value] = [
            line.split()[-1] for line in lines if line.startswith(f"moldau_pipeline_{name}{{")
        ]
        return float(value)

    command = [sys.executable, "-m", "moldau.cli", "pipeline", "run", "copy.toml", "--json"]
    with (
        (tmp_path / "err").open("wb") as err,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=err, start_new_session=True
        ) as child,
    ):
        try:
            assert child.stdout is not None

            def next_batch() -> Any:
                assert child.stdout is not None
                line = child.stdout.readline()
                assert line, (tmp_path / "err").read_text()
                return json.loads(line)

            assert next_batch()["rows"] == 20
            found = status()
            assert (found["state"], found["alive"]) == ("running", True)
            assert found["run"]["pid"] == child.pid
            assert (metric("up"), metric("rows_total"), metric("restarts_total")) == (1, 20, 0)
            said = cli("pipeline", "run", "copy.toml", code=1).err
            assert f"process {child.pid}, since " in said
            assert spark_ui_addresses(child.pid) == {"127.0.0.1"}

            # Spark is killed: the same process goes on.
            [java] = [one.pid for one in of_session(child.pid) if is_spark(one.pid)]
            os.kill(java, signal.SIGKILL)
            produce(bootstrap, topic, [{"value": b"y"}] * 5)
            eventually(lambda: next_batch()["rows"] == 5, timeout=PATIENCE)
            eventually(lambda: status()["state"] == "running", timeout=PATIENCE)
            found = status()
            assert (found["run"]["pid"], found["run"]["restarts"]) == (child.pid, 1)
            assert found["run"]["error"].startswith("Spark's process ended while pipeline copy")
            assert "Tried again in 0.1 s." in (tmp_path / "err").read_text()
            assert (metric("up"), metric("restarts_total")) == (1, 1)

            # It is asked to begin anew, and reads its file again.
            file = tmp_path / "copy.toml"
            file.write_text(file.read_text() + "output_mode = 'append'\n")
            said = cli("pipeline", "restart", "copy", "--timeout", str(PATIENCE)).out
            assert said == f"copy runs anew (process {child.pid})\n"
            produce(bootstrap, topic, [{"value": b"z"}] * 3)
            eventually(lambda: next_batch()["rows"] == 3, timeout=PATIENCE)

            said = cli("pipeline", "stop", "copy", "--timeout", str(PATIENCE)).out
            assert said == f"copy has stopped (process {child.pid})\n"
            assert child.wait(PATIENCE) == 0, (tmp_path / "err").read_text()
        finally:
            child.kill()
    assert [row[:2] for row in cli("pipeline", "list").rows] == [["copy", "stopped"]]
    produce(bootstrap, topic, [{"value": b"!"}] * 2)
    found = status()
    assert (found["state"], found["sources"][0]["lag"]) == ("stopped", 2)
    assert found["sources"][0]["lag_seconds"] >= 0
    states = [
        line["event"]
        for line in map(json.loads, (tmp_path / "checkpoints/copy/history.jsonl").open())
        if "event" in line
    ]
    assert states == [
        "starting", "running", "restarting", "starting", "running", "stopping", "restarting",
        "starting", "running", "stopping", "stopped",
    ]  # fmt: skip
    eventually(lambda: not of_session(child.pid), "processes are left")


def is_spark(pid: int) -> bool:
    command = command_of(pid)
    return "SparkSubmit" in command and "launcher.Main" not in command


def spark_ui_addresses(session: int) -> set[str]:
    """Where Spark's processes listen, of those that are not asked for by a secret."""
    [java] = [one.pid for one in of_session(session) if is_spark(one.pid)]
    inodes = set()
    for link in Path(f"/proc/{java}/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{java}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(address(fields[1].partition(":")[0]))
    return found


def address(text: str) -> str:
    """As the kernel writes it: words of four bytes, each the wrong way round."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    whole = b"".join(words)
    return ".".join(map(str, whole[-4:]))
