"""Checks side by side: one that hangs or fails is told by its own name, place and kind."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.spark.pipeline.masters import master_problem
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight.everything import Check, side_by_side
from moldau.spark.pipeline.preflight.found import Findings
from moldau.spark.pipeline.preflight.places import check_metrics
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.runs.lock import RunLock
from moldau.spark.pipeline.runs.places import place_of

FILE = """\
name = "copy"

[[sources]]
name = "records"
topic = "events"
bootstrap_servers = "127.0.0.1:9092"

[[sinks]]
from = "records"
table = "t"
database = "sqlite://"
"""


def test_each_check_that_is_late_keeps_its_place_and_kind() -> None:
    over = threading.Event()

    def hang() -> Findings:
        over.wait()
        return Findings()

    checks = [
        Check("the cluster", hang, ("sources", 0, "bootstrap_servers"), "late"),
        Check("Java", lambda: Findings(notes=["fine"])),
        Check("the database of records", hang, ("sinks", 0, "database")),
    ]
    try:
        found = side_by_side(checks, 0.1, parse_pipeline(FILE, "copy.toml"))
    finally:
        over.set()
    assert found.notes == ["fine"]
    assert [(one.line, one.kind) for one in found.problems] == [(6, "late"), (11, "wrong")]
    assert found.problems[1].message.startswith("the database of records: no answer within")


def test_a_check_that_fails_itself_refuses_nothing() -> None:
    def fail() -> Findings:
        raise RuntimeError("nobody thought of it\nat all")

    checks = [Check("the database of records", fail), Check("Java", Findings)]
    found = side_by_side(checks, 20, parse_pipeline(FILE, "copy.toml"))
    assert not found.problems
    assert found.notes == [
        "The database of records was not looked at: RuntimeError: nobody thought of it"
    ]


def test_a_port_that_is_taken_is_told_unless_the_pipeline_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = f"127.0.0.1:{taken.getsockname()[1]}"
        pipeline = parse_pipeline(f'metrics = "{metrics}"\n{FILE}', "copy.toml")
        (problem,) = check_metrics(pipeline).problems
        assert problem.line == 1
        assert problem.message == f"metrics cannot be served at {metrics}: Address already in use"
        (problem,) = check_metrics(
            replace(parse_pipeline(FILE, "copy.toml"), metrics=metrics)
        ).problems
        assert problem.line == 0  # of the command line
        lock = RunLock(place_of(pipeline))
        assert not check_metrics(pipeline).problems
        lock.close()
    assert not check_metrics(pipeline).problems


def test_the_token_of_a_server_is_not_shown() -> None:
    text = FILE + '\n[spark]\nmaster = "sc://host:15002/;token=secret"\n'
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text, "copy.toml")
    assert "sc://host:15002/ that is a server" in str(caught.value)
    assert "secret" not in str(caught.value)
    fine = text.replace('table = "t"\ndatabase = "sqlite://"', "console = true")
    pipeline = parse_pipeline(fine, "copy.toml")
    assert master_problem(pipeline) is None
    assert pipeline.shown_master == "sc://host:15002/"
