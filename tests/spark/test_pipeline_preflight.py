"""What a pipeline needs around it, told before Spark starts: brokers, topics, checkpoints, …"""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import NewTopicFactory
from tests.spark.records import produce
from tests.support.cli import CommandLine
from tests.support.moldau import Moldau
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.admin import Admin
from moldau.client.admin.types import NewTopic, raise_first_error
from moldau.spark import java
from moldau.spark.exactly_once import session
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight.checkpoints import OWNER_FILE, remember_owner
from moldau.spark.pipeline.preflight.everything import preflight
from moldau.spark.pipeline.spec import Pipeline
from moldau.wire.api import ApiKey

FILE = """\
name = "copy"

[[sources]]
name = "records"
topic = "TOPIC"
bootstrap_servers = "SERVER"
#source

[[sinks]]
from = "records"
name = "out"
#sink
"""
PATIENCE = 20.0


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine("", capsys)


def declare(
    target: str, topic: str, *, source: str = "", sink: str = 'parquet = "rows"', more: str = ""
) -> Pipeline:
    text = FILE.replace("TOPIC", topic).replace("SERVER", target)
    text = text.replace("#source", source).replace("#sink", sink) + more
    return parse_pipeline(text, "copy.toml")


def told(pipeline: Pipeline) -> list[tuple[int, str, str]]:
    return [(one.line, one.message, one.kind) for one in preflight(pipeline, PATIENCE).problems]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def closed_port() -> Iterator[int]:
    """One that nobody listens on, and nobody else gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_healthy_setup_is_fine_and_writes_nothing(
    moldau: Target, topics: NewTopicFactory, here: Path
) -> None:
    found = preflight(declare(moldau.bootstrap, topics()), PATIENCE)
    assert (found.problems, found.notes) == ([], [])
    assert list(here.iterdir()) == []


def test_missing_topics_and_brokers_have_their_lines_and_exit_codes(
    moldau: Target, topics: NewTopicFactory, cli: CommandLine, here: Path, closed_port: int
) -> None:
    topic = topics()
    text = FILE.replace("SERVER", moldau.bootstrap).replace("#sink", 'parquet = "rows"')
    file = here / "copy.toml"
    file.write_text(text.replace("TOPIC", f"{topic}x"))
    for command in (("validate", "--connect"), ("run",)):
        said = cli("pipeline", *command, "copy.toml", code=4).err
        assert said.startswith(f"copy.toml:5: source records reads topic {topic}x, and ")
        assert f"did you mean {topic}?" in said
    address = f"127.0.0.1:{closed_port}"
    file.write_text(text.replace("TOPIC", topic).replace(moldau.bootstrap, address))
    for command in (("validate", "--connect"), ("run",)):
        said = cli("pipeline", *command, "copy.toml", "--timeout", "0.3", code=3).err
        assert said.startswith(f"copy.toml:6: {address} cannot be reached")
        assert len(said.splitlines()) == 1
    cli("pipeline", "validate", "copy.toml")  # asks nobody
    assert not (here / "checkpoints").exists()


def test_brokers_that_take_connections_and_say_nothing_are_late(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        (problem,) = preflight(declare(address, "events"), 0.5).problems
    assert (problem.line, problem.kind) == (6, "late")
    assert "did not answer within 0.5 s" in problem.message


def test_topics_that_are_written_exist_or_are_created(
    moldau: Target, topics: NewTopicFactory, tmp_path: Path, here: Path
) -> None:
    topic = topics()
    sink = f'topic = "{topic}-out"\nbootstrap_servers = "SERVER"'
    found = preflight(
        declare(moldau.bootstrap, topic, sink=sink.replace("SERVER", moldau.bootstrap)), PATIENCE
    )
    assert not found.problems
    assert f"Topic {topic}-out is not there" in found.notes[0]
    strict = Moldau(tmp_path / "strict", {"auto.create.topics.enable": "false"})
    strict.start()
    try:
        sink = sink.replace("SERVER", strict.bootstrap)
        ((line, message, kind),) = told(declare(moldau.bootstrap, topic, sink=sink))
        assert (line, kind) == (12, "missing")
        assert f"moldau topic create {topic}-out" in message
    finally:
        strict.stop()


def test_replay_does_not_let_the_cluster_create_its_topic(
    moldau: Target, topics: NewTopicFactory, cli: CommandLine
) -> None:
    to = topics()
    given = ("replay", "-p", f"bootstrap={moldau.bootstrap}", "-p")
    said = cli("pipeline", "run", *given, f"to={to}-missing", code=4).err
    assert f"moldau topic create {to}-missing --partitions N" in said
    assert len(said.splitlines()) == 1
    cli("pipeline", "validate", "--connect", *given, f"to={to}")


def test_exactly_once_without_transactions_is_told_with_what_to_do(
    moldau: Target, topics: NewTopicFactory, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Something else that this cluster does not serve stands for them.
    monkeypatch.setattr(session, "_NEEDED", (ApiKey.DESCRIBE_QUORUM,))
    topic = topics()
    sink = f'topic = "{topic}"\nexactly_once = true\nbootstrap_servers = "{moldau.bootstrap}"'
    ((line, message, kind),) = told(declare(moldau.bootstrap, topic, sink=sink))
    assert (line, kind) == (13, "wrong")
    assert "needs a cluster with transactions" in message
    assert "leave exactly_once out" in message


def write_offsets(place: Path, offsets: dict[str, dict[str, int]]) -> None:
    """As Spark does when a batch begins."""
    log = place / "checkpoints" / "copy" / "out" / "offsets"
    log.mkdir(parents=True, exist_ok=True)
    (log / "0").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offsets)}')


def test_a_checkpoint_of_another_source_is_refused(
    moldau: Target, topics: NewTopicFactory, here: Path
) -> None:
    topic, other = topics(), topics()
    write_offsets(here, {other: {"0": 0}})
    pipeline = declare(moldau.bootstrap, topic)
    ((_, message, _),) = told(pipeline)
    assert f"belongs to another source: it has offsets of topic {other}" in message
    assert f"reads topic {topic}" in message
    assert "fail" not in message
    # Whoever says that nothing matters gets on.
    assert not told(declare(moldau.bootstrap, topic, source="fail_on_data_loss = false"))
    write_offsets(here, {topic: {"0": 0}})
    assert not told(pipeline)
    write_offsets(here, {topic: {"0": 7}})
    ((_, message, _),) = told(pipeline)
    assert "up to offset 7, and that ends at 0 now" in message


def test_a_checkpoint_of_another_pipeline_cluster_or_topic_of_that_name_is_refused(
    moldau: Target, topics: NewTopicFactory, tmp_path: Path, here: Path
) -> None:
    topic = topics()
    pipeline = declare(moldau.bootstrap, topic, more='[spark]\ncheckpoint = "checkpoints/copy"\n')
    remember_owner(pipeline, preflight(pipeline, PATIENCE))
    assert not told(pipeline)
    write_offsets(here, {topic: {"0": 0}})
    assert not told(pipeline)
    owner = json.loads((here / "checkpoints" / "copy" / OWNER_FILE).read_text())
    assert owner["out"]["pipeline"] == "copy"
    text = FILE.replace("TOPIC", topic).replace("SERVER", moldau.bootstrap)
    text = text.replace("#sink", 'parquet = "rows"').replace('"copy"', '"another"')
    text += '[spark]\ncheckpoint = "checkpoints/copy"\n'
    ((line, message, _),) = told(parse_pipeline(text, "another.toml"))
    assert line == 14
    assert "belongs to another pipeline, copy" in message
    with Admin(bootstrap_servers=moldau.bootstrap) as admin:
        raise_first_error(admin.delete_topics([topic]))
        eventually(lambda: admin.create_topics([NewTopic(topic, 1)])[0].error is None)
    ((_, message, _),) = told(pipeline)
    assert f"topic {topic} was deleted and created anew" in message
    second = Moldau(tmp_path / "second")
    second.start()
    try:
        produce(second.bootstrap, topic, [{"value": b"x"}])
        elsewhere = declare(
            second.bootstrap, topic, more='[spark]\ncheckpoint = "checkpoints/copy"\n'
        )
        ((_, message, _),) = told(elsewhere)
        assert "belongs to another source: the cluster " in message
        assert moldau.bootstrap in message
    finally:
        second.stop()


def test_databases_answer_and_have_the_columns(
    moldau: Target, topics: NewTopicFactory, here: Path, closed_port: int
) -> None:
    topic = topics()
    sink = 'table = "people"\ndatabase = "sqlite:///people.db"\nkeys = ["nam"]'
    pipeline = declare(moldau.bootstrap, topic, sink=sink)
    assert not told(pipeline)  # it will be made
    assert not (here / "people.db").exists()
    connection = sqlite3.connect(here / "people.db")
    connection.execute("CREATE TABLE people (name TEXT, age INT)")
    connection.close()
    ((line, message, _),) = told(pipeline)
    assert line == 12
    assert message.startswith("table people has no column nam")
    assert message.endswith("did you mean name?")
    nowhere = sink.replace("people.db", "nowhere/people.db")
    ((line, message, _),) = told(declare(moldau.bootstrap, topic, sink=nowhere))
    assert line == 13
    assert "there is no directory nowhere" in message
    source = '[[sources]]\nname = "people"\ntable = "peple"\ndatabase = "sqlite:///people.db"\n'
    ((line, message, _),) = told(declare(moldau.bootstrap, topic, more=source))
    assert line == 15
    assert message.endswith("has no table peple: did you mean people?")
    away = f"postgresql+psycopg://me:secret@127.0.0.1:{closed_port}/people"
    sink = f'table = "people"\ndatabase = "{away}"'
    ((line, message, _),) = told(declare(moldau.bootstrap, topic, sink=sink))
    assert line == 13
    assert "does not answer" in message
    assert "secret" not in message


def test_columns_that_are_written_are_those_of_the_table(
    moldau: Target, topics: NewTopicFactory, here: Path, cli: CommandLine
) -> None:
    connection = sqlite3.connect(here / "people.db")
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age INT NOT NULL)")
    connection.close()
    text = FILE.replace("TOPIC", topics()).replace("SERVER", moldau.bootstrap)
    text = text.replace('from = "records"', 'from = "people"')
    text = text.replace("#sink", 'table = "people"\ndatabase = "sqlite:///people.db"')
    step = '[[steps]]\nname = "people"\nsql = "SELECT string(value) AS COLUMN FROM records"\n'
    (here / "p.toml").write_text(text + step.replace("COLUMN", "nam"))
    said = cli("pipeline", "validate", "--connect", "p.toml", code=1).err.splitlines()
    note, refused = said
    assert note.endswith("Table people wants a value for column age, and sink out writes none")
    assert refused == (
        "p.toml:12: table people has no column nam, which sink out writes: did you mean name?"
    )
    (here / "p.toml").write_text(text + step.replace("COLUMN", "Name, 3 AS age"))
    cli("pipeline", "validate", "--connect", "p.toml")


class Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'["AVRO"]')

    def log_message(self, *_: Any) -> None:
        pass


def test_a_registry_answers(
    moldau: Target, topics: NewTopicFactory, here: Path, closed_port: int
) -> None:
    topic = topics()
    source = 'value_format = "avro"\nschema_registry = "http://127.0.0.1:PORT"'
    ((line, message, _),) = told(
        declare(moldau.bootstrap, topic, source=source.replace("PORT", str(closed_port)))
    )
    assert line == 8
    assert "The registry cannot be asked" in message
    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = str(server.server_port)
            assert not told(declare(moldau.bootstrap, topic, source=source.replace("PORT", port)))
        finally:
            server.shutdown()
            thread.join()


def test_a_master_that_is_not_there_is_told_at_once(
    moldau: Target, topics: NewTopicFactory, here: Path, closed_port: int
) -> None:
    more = f'[spark]\nmaster = "spark://127.0.0.1:{closed_port}"\n'
    ((line, message, _),) = told(declare(moldau.bootstrap, topics(), more=more))
    assert line == 14
    assert message.startswith(f"no Spark master answers at 127.0.0.1:{closed_port}")


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return home


def test_a_java_that_is_too_old_or_not_there_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = make_java(tmp_path / "8", "1.8.0_412"), make_java(tmp_path / "21", "21.0.2")
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    monkeypatch.setenv("PATH", str(old / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(java.JavaNotFoundError) as caught:
        java.find_java()
    assert "Spark needs Java 17 or later" in str(caught.value)
    assert f"{old} is Java 8" in str(caught.value)
    monkeypatch.setattr(java, "_USUAL_PLACES", (f"{tmp_path}/2*",))
    found = java.find_java()
    assert (found.home, found.version) == (new, 21)
    assert found.remark is not None
    assert f"JAVA_HOME={tmp_path}/nowhere has no bin/java" in found.remark
    assert f"{new} (Java 21) is taken" in found.remark
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert java.find_java().remark is None


def test_what_a_server_has_to_reach_is_told_and_not_refused(here: Path, closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        more = f'[spark]\nmaster = "sc://127.0.0.1:{server.getsockname()[1]}"\n'
        found = preflight(
            declare(f"127.0.0.1:{closed_port}", "events", sink="console = true", more=more), 0.3
        )
    assert not found.problems
    assert "cannot be reached" in found.notes[0]
    ((line, message, _),) = told(
        declare(f"127.0.0.1:{closed_port}", "events", sink="console = true", more=more)
    )
    assert line == 14
    assert message.startswith("No Spark Connect server answers at 127.0.0.1:")
