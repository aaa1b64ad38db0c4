"""Every benchmark program runs, in its quick mode, on Moldau alone: no JVM, and no figure of worth.
Spark's need a JVM; ``python -m bench spark pipelines --quick`` tries them.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench import __main__ as command
from bench import page
from bench.session import Session
from bench.targets import Moldau, PlainMoldau

PROGRAMS = sorted(set(command.PROGRAMS) - {"spark", "pipelines"})


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_measures_moldau_in_every_line(program: str) -> None:
    said: list[str] = []
    kinds = [Moldau, PlainMoldau] if program == "broker" else [Moldau]
    tables = importlib.import_module(f"bench.{program}").run(
        Session(kinds, said.append, quick=True)
    )
    assert tables
    for table in tables:
        assert table.lines, table.title
        for line in table.lines:
            assert len(line) == len(table.headings)
            assert any(character.isdigit() for character in "".join(line[1:])), line


@pytest.mark.parametrize("program", command.PROGRAMS)
def test_every_program_has_its_place_in_the_page(program: str) -> None:
    assert page.markers(program)[0] in page.PAGE.read_text()


def test_a_quick_run_prints_its_tables_and_leaves_the_page_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "missing.md")
    assert command.main(["partitions", "--quick", "--targets", "moldau"]) == 0
    printed = capsys.readouterr()
    assert "20 partitions" in printed.out
    assert "again: python -m bench partitions" in " ".join(printed.err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no such program: nothing"),
        (["broker", "--targets", "moldau,pulsar"], "no such target: pulsar"),
    ],
)
def test_what_is_not_there_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("log_append", ["--count", "10000"]),
        ("records", ["--once", "--count", "10"]),
        ("transport", ["--rounds", "1", "--megabytes", "2", "--requests", "20"]),
        ("wire", []),
    ],
)
def test_programs_without_a_broker_print_figures(module: str, arguments: list[str]) -> None:
    command_line = [sys.executable, "-m", f"bench.{module}", *arguments]
    printed = subprocess.run(command_line, capture_output=True, text=True, check=True).stdout
    assert re.search(r"\d\.\d", printed)
