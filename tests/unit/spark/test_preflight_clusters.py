"""What clusters answer before a pipeline starts: nothing that would run is refused."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from tests.support.scripted_broker import ScriptedBroker, powered_off, silent

from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.spark.pipeline.checkpoint import Planned
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight.clusters import check_cluster, clusters_of
from moldau.spark.pipeline.preflight.found import Findings

FILE = """\
name = "copy"

[[sources]]
name = "records"
bootstrap_servers = "SERVERS"
SOURCE

[[sinks]]
from = "records"
name = "out"
SINK
"""
SHORT = 1.0
LONG = 20.0


def ask(
    servers: str,
    patience: float = LONG,
    *,
    source: str = 'topic = "events"',
    sink: str = "console = true",
    planned: Planned | None = None,
) -> Findings:
    text = FILE.replace("SERVERS", servers).replace("SOURCE", source).replace("SINK", sink)
    found = Findings()
    for use in clusters_of(parse_pipeline(text, "copy.toml")):
        found.add(check_cluster(use, planned or {}, patience))
    return found


def test_servers_that_are_off_or_silent_do_not_hide_one_that_answers() -> None:
    with (
        powered_off() as off,
        silent() as mute,
        ScriptedBroker({"events": ErrorCode.NONE}).serving() as broker,
    ):
        found = ask(f"{off},{mute},{broker.address}", 8.0)
    assert (found.problems, found.notes) == ([], [])


def test_silence_is_late_and_no_connection_is_unreachable() -> None:
    with silent() as mute, powered_off() as off:
        for servers, kind in ((mute, "late"), (off, "unreachable"), (f"{off},{mute}", "late")):
            (problem,) = ask(servers, SHORT).problems
            assert (problem.line, problem.kind) == (5, kind)


def test_a_name_that_is_looked_up_for_ever_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()
    known = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **options: Any) -> Any:
        if host == "slow.example":
            over.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "too late")
        return known(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    found: list[Findings] = []
    before = set(threading.enumerate())
    thread = threading.Thread(target=lambda: found.append(ask("slow.example:9092", SHORT)))
    thread.start()
    try:
        thread.join(30)
        assert not thread.is_alive()
        assert all(one.daemon for one in set(threading.enumerate()) - before)
    finally:
        over.set()
        thread.join()
    (problem,) = found[0].problems
    assert (problem.line, problem.kind) == (5, "unreachable")


def test_settings_that_make_no_sense_are_told_with_their_line() -> None:
    source = """\
topic = "events"
options = { "kafka.security.protocol" = "SSL", "kafka.ssl.truststore.location" = "/nowhere.pem" }
"""
    (problem,) = ask("127.0.0.1:9092", source=source).problems
    assert (problem.line, problem.kind) == (5, "wrong")
    assert "/nowhere.pem" in problem.message


@pytest.mark.parametrize("kind", ['topic = "events"', 'topics = ["events", "others"]'])
def test_a_topic_that_is_not_there_is_missing(kind: str) -> None:
    with ScriptedBroker({"others": ErrorCode.NONE}).serving() as broker:
        (problem,) = ask(broker.address, source=kind).problems
    assert (problem.line, problem.kind) == (6, "missing")


def test_a_topic_that_may_not_be_seen_is_not_called_missing() -> None:
    topics = {"events": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "others": ErrorCode.NONE}
    more = '\n[[sources]]\nname = "all"\npattern = "o.*"\nbootstrap_servers = "SERVERS"'
    with ScriptedBroker(topics).serving() as broker:
        for source in ('topic = "events"', f'topic = "events"{more}'):
            source = source.replace("SERVERS", broker.address)
            (problem,) = ask(broker.address, source=source).problems
            assert (problem.line, problem.kind) == (6, "wrong")
            assert "topic events may not be seen" in problem.message


def test_a_topic_that_looks_for_a_leader_is_no_reason_to_refuse() -> None:
    topics = dict.fromkeys(("events", "out"), ErrorCode.LEADER_NOT_AVAILABLE)
    with ScriptedBroker(topics).serving() as broker:
        sink = f'topic = "out"\ncreate = false\nbootstrap_servers = "{broker.address}"'
        found = ask(broker.address, sink=sink)
    assert not found.problems
    assert len(found.notes) == 2


@pytest.mark.parametrize(
    ("configs", "refused"),
    [
        ({}, False),
        ({"auto.create.topics.enable": "true"}, False),
        ({"auto.create.topics.enable": "false"}, True),
    ],
)
def test_only_who_says_so_does_not_create_topics(configs: dict[str, str], refused: bool) -> None:
    with ScriptedBroker({"events": ErrorCode.NONE}, configs=configs).serving() as broker:
        sink = f'topic = "out"\nbootstrap_servers = "{broker.address}"'
        found = ask(broker.address, sink=sink)
    assert [one.kind for one in found.problems] == ["missing"] * refused
    assert len(found.notes) == (not refused)


def test_partitions_of_the_checkpoint_are_asked_for_their_ends() -> None:
    partition = TopicPartition("events", 0)
    planned = {"out": [{partition: 3, TopicPartition("gone", 0): 1}]}
    with ScriptedBroker({"events": ErrorCode.NONE}, end=9).serving() as broker:
        found = ask(broker.address, planned=planned)
    assert found.ends == {"records": {partition: 9}}
    assert not found.problems
