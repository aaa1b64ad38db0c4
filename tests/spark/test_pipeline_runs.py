"""Who runs a pipeline, what is left of a run, and what is done about it: no Spark is needed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import NewTopicFactory
from tests.spark.records import produce
from tests.support.cli import CommandLine
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.model import TopicPartition
from moldau.spark.loopback import loopback_ui
from moldau.spark.pipeline.cores import expected_cores, local_partitions
from moldau.spark.pipeline.failures import PipelineFailedError, failure
from moldau.spark.pipeline.lags import lags_of, total
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.problems import PipelineError, Problem
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.report.series import dead_letters, watched
from moldau.spark.pipeline.runs.claim import AlreadyRunningError, Claim
from moldau.spark.pipeline.runs.history import History
from moldau.spark.pipeline.runs.metrics import MetricsServer
from moldau.spark.pipeline.runs.places import notes, place_of
from moldau.spark.pipeline.runs.policy import delay, may_pass
from moldau.spark.pipeline.runs.processes import identity
from moldau.spark.pipeline.runs.record import read_record, write_record
from moldau.spark.pipeline.runs.watch import Watch
from moldau.spark.pipeline.spec import Pipeline, Restart

FILE = """\
name = "copy"
[[sources]]
name = "records"
topic = "TOPIC"
bootstrap_servers = "SERVER"
[[sinks]]
from = "records"
name = "files"
parquet = "rows"
"""
HOLDER = """\
import sys
from moldau.spark.pipeline.load import load_pipeline
from moldau.spark.pipeline.runs.claim import Claim
with Claim(load_pipeline("copy.toml")) as claim:
    claim.change("running")
    print("claimed", flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy.toml").write_text(FILE)
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], here: Path) -> CommandLine:
    return CommandLine("", capsys)


@pytest.fixture
def pipeline(here: Path) -> Pipeline:
    return parse_pipeline(FILE, "copy.toml")


@contextmanager
def holder(program: str = HOLDER) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs the pipeline."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "claimed\n"
            yield child
        finally:
            child.kill()


def test_a_second_run_is_refused_with_the_first_ones_process(
    pipeline: Pipeline, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holder() as child:
        with pytest.raises(AlreadyRunningError, match=f"process {child.pid}, since "):
            Claim(pipeline)
        said = cli("pipeline", "run", "copy.toml", code=1).err
        assert (
            f"Pipeline copy runs already on checkpoint checkpoints/copy: process {child.pid}"
            in said
        )
        record = read_record(place_of(pipeline))
        assert record is not None
        assert (record.state, record.pid, record.process) == (
            "running", child.pid, identity(child.pid),
        )  # fmt: skip
        # Whatever ends it: a lock is let go of, and what it said is not believed any more.
        child.kill()
        child.wait()
        record = read_record(place_of(pipeline))
        assert record is not None
        assert record.state == "killed"
        with Claim(pipeline) as claim:
            assert claim.record.pid == os.getpid()
    record = read_record(place_of(pipeline))
    assert record is not None
    assert record.state == "stopped"


def test_two_checkpoints_are_two_runs(pipeline: Pipeline) -> None:
    with Claim(pipeline), Claim(replace(pipeline, checkpoint="elsewhere")):
        pass
    server = replace(pipeline, master="sc://host", checkpoint="elsewhere")
    assert place_of(server).parent == notes()  # the checkpoint is the server's
    with Claim(server), pytest.raises(AlreadyRunningError):
        Claim(server)


def test_a_number_of_a_process_is_not_believed(pipeline: Pipeline, cli: CommandLine) -> None:
    with Claim(pipeline) as claim:
        mine = claim.record
    # The number is a process's that lives, and another one.
    write_record(claim.place, replace(mine, state="running", pid=os.getppid()))
    found = cli("pipeline", "status", "copy.toml", "--json", "--timeout", "0.1").json
    assert (found["state"], found["alive"]) == ("killed", False)
    assert "does not run: it was killed" in cli("pipeline", "stop", "copy.toml", code=4).err
    with holder() as child:
        record = read_record(claim.place)
        assert record is not None
        write_record(claim.place, replace(record, process="another one"))
        said = cli("pipeline", "stop", "copy", code=1).err
        assert "just starting, or ending" in said
        assert child.poll() is None
        write_record(claim.place, replace(record, host="elsewhere"))
        said = cli("pipeline", "stop", "copy", code=1).err
        assert f"runs on elsewhere, as process {child.pid}" in said


def test_pipelines_are_listed_stopped_and_found_by_name(
    pipeline: Pipeline, cli: CommandLine, here: Path
) -> None:
    assert cli("pipeline", "list").rows == []
    assert "has not run yet" in cli("pipeline", "stop", "copy.toml", code=4).err
    stopping = HOLDER.replace("import sys\n", "import signal, sys\n").replace(
        "with Claim", "signal.signal(signal.SIGTERM, signal.default_int_handler)\nwith Claim"
    )
    with holder(stopping) as child:
        [row] = cli("pipeline", "list").rows
        assert row[:2] == ["copy", "running"]
        assert row[3] == str(child.pid)
        assert row[6] == str(here / "copy.toml")
        assert cli("pipeline", "stop", "copy").out == f"copy has stopped (process {child.pid})\n"
        assert child.wait(60) == 0
    [found] = cli("pipeline", "list", str(here), "--json").json
    assert (found["pipeline"], found["state"]) == ("copy", "stopped")
    assert "does not run: it was stopped" in cli("pipeline", "restart", "copy", code=4).err
    (place_of(pipeline) / "run.json").unlink()
    assert cli("pipeline", "list").rows == []
    assert not list(notes().iterdir())


def test_one_that_does_not_stop_is_told(cli: CommandLine) -> None:
    deaf = HOLDER.replace("import sys\n", "import signal, sys\n").replace(
        "with Claim", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwith Claim"
    )
    with holder(deaf) as child:
        said = cli("pipeline", "stop", "copy", "--timeout", "0.3", code=5).err
        assert f"(process {child.pid}) was asked to stop, and has not done so within 0.3 s" in said


BATCH = Progress("files", 3, "2026-01-01T00:00:10.000Z", 40, 10.0, 250, "2026-01-01T00:00:00.000Z",
                 7, 5, 1024, 2, {"t": {"0": 9}})  # fmt: skip


def test_a_history_has_an_end(tmp_path: Path) -> None:
    history = History(tmp_path, largest=5_000)
    for number in range(200):
        history.batch(replace(BATCH, batch=number))
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 5_000
    numbers = [line["batch"] for line in history.read()]
    assert numbers == list(range(numbers[0], 200))
    assert len(numbers) > 20
    # A process that is killed leaves half a line.
    with (tmp_path / "history.jsonl").open("ab") as file:
        file.write(b'{"sink":"files","ba')
    history.event("failed", "2026-01-01T00:00:00Z", error="gone")
    assert [line.get("batch", line.get("error")) for line in history.read()][-2:] == [199, "gone"]


TRACE = "Traceback (most recent call last):\n  File x\n{}"


JAVA = "java.io.IOException: Stream closed\n\tat java.base/java.io.DataOutputStream.flush(D.java:1)"
WORKERS = (
    "\n\tat org.apache.spark.api.python.PythonWorkerFactory.create(PythonWorkerFactory.scala:1)"
)


def failed(text: str) -> PipelineFailedError:
    pipeline = parse_pipeline(FILE, "copy.toml")
    cause = ValueError(text)
    error = failure(pipeline, pipeline.sinks[0], "sink files", cause)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (TRACE.format("moldau.client.errors.NoBrokersError: nobody"), True),
        (TRACE.format("moldau.request_errors.TimedOutError: silence"), True),
        (TRACE.format("moldau.errors.KafkaError: NOT_LEADER_OR_FOLLOWER: moved"), True),
        ("Job aborted: ExecutorLostFailure (executor 1 exited caused by …)", True),
        (TRACE.format("sqlalchemy.exc.OperationalError: (psycopg.OperationalError) gone"), True),
        ("java.net.ConnectException: Connection refused", True),
        ("Job aborted: SparkException: Python worker exited unexpectedly (crashed)", True),
        (TRACE.format(f"Py4JJavaError: o1.save.\n: {JAVA}{WORKERS}"), True),
        (TRACE.format(f"Py4JJavaError: o1.save.\n: {JAVA}\n\tat org.apache.hadoop.Disk"), False),
        (TRACE.format("moldau.client.errors.UnknownTopicError: UNKNOWN_TOPIC_OR_PARTITION"), False),
        (TRACE.format("moldau.spark.bad_records.BadRecordError: no JSON"), False),
        (TRACE.format("moldau.spark.offsets.DataLossError: gone"), False),
        (TRACE.format("moldau.errors.KafkaError: PRODUCER_FENCED: another one"), False),
        ("[UNRESOLVED_COLUMN] pag SQLSTATE: 42703", False),
        ("[PARSE_SYNTAX_ERROR] near FORM", False),
        (
            TRACE.format("ConnectionError: before") + "\n\nDuring handling …\n\n"
            + TRACE.format("ValueError: the last one counts"),
            False,
        ),
    ],
)  # fmt: skip
def test_what_may_pass_by_itself_is_tried_again(text: str, passes: bool) -> None:
    assert may_pass(failed(text)) is passes


def test_a_planner_that_is_gone_is_told_and_tried_again() -> None:
    """Java has no message for it, and PySpark says "null"."""
    cause: Any = ValueError()
    cause._stackTrace = (
        "java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java)"
        "\n\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.commit"
    )
    error: Any = ValueError("null")
    error._cause = cause
    pipeline = parse_pipeline(FILE, "copy.toml")
    told = failure(pipeline, pipeline.sinks[0], "sink files", error)
    assert "sink files: a Python process of Spark's has ended" in str(told)
    assert may_pass(told)


def test_what_was_found_before_spark_starts_may_pass_too() -> None:
    away = Problem(1, "no broker", "unreachable")
    assert may_pass(PipelineError("p.toml", [away]))
    assert not may_pass(PipelineError("p.toml", [away, Problem(2, "no column")]))
    assert may_pass(PipelineFailedError("Spark's process ended", "lost"))


def test_attempts_come_ever_more_seldom() -> None:
    policy = Restart(attempts=5, backoff=1000, max_backoff=5000)
    assert [delay(policy, failures) for failures in range(1, 7)] == [1, 2, 4, 5, 5, None]
    assert delay(Restart(), 1000) == 300


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[restart]\nattempts = 3\n", "p.toml:10: [restart] needs policy, such as policy = "),
        ('[restart]\npolicy = "always"\n', "p.toml:11: policy of [restart] is 'always': there is"),
        ('[restart]\npolicy = "on-failure"\nattempts = 1.5\n', "p.toml:12: attempts of [restart]"),
        ('[restart]\npolicy = "on-failure"\nback_off = "1s"\n', "did you mean backoff?"),
        ('[restart]\npolicy = "on-failure"\n[trigger]\nbatch = true\n', "p.toml:11: a batch"),
    ],
)  # fmt: skip
def test_mistakes_about_restarts_are_told(text: str, sentence: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(FILE + text, "p.toml")
    assert sentence in str(caught.value)


def test_mistakes_about_metrics_are_told() -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(f'metrics = "9404"\n{FILE}', "p.toml")
    assert str(caught.value) == (
        "p.toml:1: metrics is where to listen, such as \"127.0.0.1:9404\", not '9404'"
    )
    whole = parse_pipeline(
        f'metrics = "[::1]:9404"\n{FILE}\n[restart]\npolicy = "on-failure"\nattempts = 3\n'
        'backoff = "2s"\nmax_backoff = "1m"\nreset_after = "1h"\n',
        "p.toml",
    )
    assert whole.metrics == "[::1]:9404"
    assert whole.restart == Restart(3, 2000, 60_000, 3_600_000)


def scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.read().decode().splitlines()
    kinds = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name.removeprefix("moldau_pipeline_")] = float(value)
            family = name.partition("{")[0]
            assert {family, family.removesuffix("_sum"), family.removesuffix("_count")} & kinds
    return found


def test_metrics_for_prometheus(
    moldau: Target, topics: NewTopicFactory, here: Path, cli: CommandLine
) -> None:
    topic = topics(partitions=2)
    before = time.time()
    produce(moldau.bootstrap, topic, [
        {"value": b"%d" % number, "partition": number % 2, "timestamp": int(before * 1000) - 60_000}
        for number in range(20)
    ])  # fmt: skip
    text = FILE.replace("TOPIC", topic).replace("SERVER", moldau.bootstrap)
    pipeline = parse_pipeline(text, "copy.toml")
    with (
        Claim(pipeline) as claim,
        Watch(pipeline, claim.history) as watch,
        MetricsServer(claim, watch, "127.0.0.1:0") as server,
    ):
        assert scraped(server.port) == {
            'up{pipeline="copy"}': 0,
            'restarts_total{pipeline="copy"}': 0,
        }
        claim.change("running")
        server.add(replace(BATCH, offsets={topic: {"0": 10, "1": 4}}))
        server.add(replace(BATCH, batch=4, rows=2, offsets={topic: {"0": 10, "1": 7}}))
        found = scraped(server.port)
        sink = '{pipeline="copy",sink="files"}'
        assert found['up{pipeline="copy"}'] == 1
        assert found[f"rows_total{sink}"] == 42
        assert found[f"late_rows_total{sink}"] == 4
        assert (found[f"batch_seconds_sum{sink}"], found[f"batch_seconds_count{sink}"]) == (0.5, 2)
        assert (found[f"batch{sink}"], found[f"state_bytes{sink}"]) == (4, 1024)
        assert found[f"watermark_age_seconds{sink}"] > 0
    offsets = {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 7}
    lags = lags_of(pipeline, offsets, 60)
    assert {partition.partition: lag.records for partition, lag in lags.items()} == {0: 0, 1: 3}
    assert lags[TopicPartition(topic, 0)].seconds == 0
    behind = total(lags, offsets)
    assert behind is not None
    assert behind.seconds is not None
    assert 60 <= behind.seconds <= time.time() - before + 61


def test_brokers_are_asked_how_far_behind_it_is(
    moldau: Target, topics: NewTopicFactory, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a pipeline that reports nothing any more."""
    topic, bad = topics(), topics(partitions=2)
    text = FILE.replace("TOPIC", topic).replace("SERVER", moldau.bootstrap)
    pipeline = parse_pipeline(
        text.replace("[[sinks]]", f'dead_letter_topic = "{bad}"\n[[sinks]]'), "copy.toml"
    )
    monkeypatch.setattr("moldau.spark.pipeline.runs.watch.PAUSE", 0.05)
    monkeypatch.setattr("moldau.spark.pipeline.runs.watch._WRITTEN", 0.0)
    with (
        Claim(pipeline) as claim,
        Watch(pipeline, claim.history) as watch,
        MetricsServer(claim, watch, "127.0.0.1:0") as server,
    ):
        watch.add(replace(BATCH, offsets={topic: {"0": 0}}))
        source = '{pipeline="copy",source="records"}'
        letters = f'dead_letters{{pipeline="copy",topic="{bad}"}}'
        eventually(lambda: scraped(server.port).get(f"lag_records{source}") == 0)
        eventually(lambda: scraped(server.port).get(letters) == 0)
        produce(moldau.bootstrap, topic, [{"value": b"x"}] * 5)
        produce(moldau.bootstrap, bad, [{"value": b"x"}] * 2)
        eventually(lambda: scraped(server.port)[f"lag_records{source}"] == 5)
        eventually(lambda: scraped(server.port)[letters] == 2)
        assert scraped(server.port)[f"lag_seconds{source}"] >= 0
        eventually(lambda: watched(claim.history.read(), "records")["records"][-1].value == 5)
    lines = claim.history.read()
    assert dead_letters(lines)[bad][-1].value == 2
    assert watched(lines, "seconds")["records"][-1].value >= 0


def test_status_says_who_runs_it_and_how_far_it_is(
    moldau: Target, topics: NewTopicFactory, cli: CommandLine, here: Path
) -> None:
    topic = topics()
    hour_ago = int(time.time() * 1000) - 3_600_000
    produce(moldau.bootstrap, topic, [{"value": b"x", "timestamp": hour_ago}] * 5)
    text = FILE.replace("TOPIC", topic).replace("SERVER", moldau.bootstrap)
    (here / "copy.toml").write_text(text)
    checkpoint = here / "checkpoints" / "copy" / "files"
    for folder, line in (("offsets", json.dumps({topic: {"0": 2}})), ("commits", "")):
        (checkpoint / folder).mkdir(parents=True)
        (checkpoint / folder / "0").write_text(f"v1\n{{}}\n{line}")
    with Claim(parse_pipeline(text, "copy.toml")) as claim:
        claim.change("running")
        claim.fail("copy.toml:7: sink files: gone", again=True)
        claim.change("running")
        lines = cli("pipeline", "status", "copy.toml").out.splitlines()
        assert lines[0].startswith("copy is running since 20")
        assert f"(process {os.getpid()} on " in lines[0]
        assert lines[0].endswith(", alive, restarted 1 times)")
        assert lines[1].startswith("last error, at 20")
        assert lines[1].endswith(": copy.toml:7: sink files: gone")
        assert lines[2].split("\t")[:6] == ["files", "0", "0", "2", "3", "60 m"]
        assert lines[3].split("\t") == ["records", "3", "60 m"]
    found = cli("pipeline", "status", "copy.toml", "--json").json
    assert (found["state"], found["alive"], found["run"]["restarts"]) == ("stopped", False, 1)
    [sink], [source] = found["sinks"], found["sources"]
    assert sink["lag"] == source["lag"] == 3
    assert 3600 <= sink["lag_seconds"] < 3600 + 600


@pytest.mark.parametrize(
    ("master", "config", "environment", "variables", "settings"),
    [
        ("local[2]", {}, {}, {"SPARK_LOCAL_IP": "127.0.0.1"}, {}),
        ("local[2]", {}, {"SPARK_LOCAL_IP": "0.0.0.0"}, {}, {}),
        ("local[2]", {"spark.ui.enabled": "false"}, {}, {}, {}),
        # Executors elsewhere must find the driver all the same; also after beginning anew.
        ("spark://127.0.0.9:1", {}, {"SPARK_LOCAL_IP": "127.0.0.1"},
         {"SPARK_LOCAL_IP": "127.0.0.1"}, {"spark.driver.host": "127.0.0.1"}),
        ("k8s://https://127.0.0.9:1", {"spark.driver.host": "me"}, {},
         {"SPARK_LOCAL_IP": "127.0.0.1"}, {}),
        ("yarn", {}, {}, {}, {}),
    ],
)  # fmt: skip
def test_only_the_web_ui_is_on_loopback(
    master: str,
    config: dict[str, str],
    environment: dict[str, str],
    variables: dict[str, str],
    settings: dict[str, str],
) -> None:
    assert loopback_ui(master, config, environment) == (variables, settings)


def test_systemd_is_told(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with Claim(pipeline) as claim:
            claim.change("running")
            claim.change("stopping")
        said = [manager.recv(100).decode() for _ in range(4)]
    assert said == [
        "STATUS=starting", "READY=1\nSTATUS=running", "STOPPING=1\nSTATUS=stopping",
        "STATUS=stopped",
    ]  # fmt: skip
    unit = Path(__file__).parents[2] / "examples" / "systemd" / "moldau-pipeline@.service"
    assert "Type=notify\n" in unit.read_text()


def test_cores_that_are_asked_for_are_waited_for() -> None:
    assert expected_cores({}) == 0
    assert expected_cores({"spark.cores.max": "6"}) == 6
    assert expected_cores({"spark.executor.instances": "3", "spark.executor.cores": "4"}) == 12
    assert (local_partitions("local[5]"), local_partitions("spark://h:1")) == ("5", None)
