"""``moldau log dirs`` and ``moldau log move`` against a broker with two directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

from moldau.testing.broker import MoldauProcess


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "disk0"), str(tmp_path / "disk1")]


@pytest.fixture
def moldau(
    tmp_path: Path,
    paths: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[CommandLine]:
    with MoldauProcess(tmp_path, overrides={"log.dirs": ",".join(paths)}) as broker:
        monkeypatch.setenv("MOLDAU_BOOTSTRAP", broker.bootstrap_servers)
        broker.create_topic("t", 2)
        yield CommandLine(broker.bootstrap_servers, capsys)


def homes(moldau: CommandLine) -> dict[int, str]:
    return {
        partition["partition"]: log_dir["path"]
        for log_dir in moldau("log", "dirs", "--json").json
        for partition in log_dir["partitions"]
    }


def test_a_replica_is_moved_and_shown_where_it_is(moldau: CommandLine, paths: list[str]) -> None:
    before = homes(moldau)
    assert set(before) == {0, 1}
    assert set(before.values()) == set(paths)
    moldau("log", "move", "t:0", "--to", before[1], "--wait")
    assert homes(moldau) == {0: before[1], 1: before[1]}
    rows = {row[1]: row for row in moldau("log", "dirs").rows}
    assert rows[before[1]][:4] == ["1", before[1], "2", "0"]
    assert rows[before[0]][2] == "0"


def test_a_cordoned_directory_is_shown_as_one(moldau: CommandLine, paths: list[str]) -> None:
    moldau("config", "alter", "broker", "1", f"cordoned.log.dirs={paths[1]}")
    assert {row[1]: row[8] for row in moldau("log", "dirs").rows} == {
        paths[0]: "no",
        paths[1]: "yes",
    }
    shown = {
        log_dir["path"]: log_dir["cordoned"] for log_dir in moldau("log", "dirs", "--json").json
    }
    assert shown == {paths[0]: False, paths[1]: True}


def test_what_cannot_be_moved_is_told(moldau: CommandLine, paths: list[str]) -> None:
    assert "is not a partition" in moldau("log", "move", "t", "--to", paths[0], code=2).err
    unknown = moldau("log", "move", "nowhere:0", "--to", paths[0], code=4)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in unknown.err
    elsewhere = moldau("log", "move", "t:0", "--to", "/no/such/directory", code=1)
    assert "LOG_DIR_NOT_FOUND" in elsewhere.err
