"""Every benchmark program runs, in its quick mode, on Moldau alone: no JVM, and no figure of worth.
Spark's needs a JVM; ``python -m bench spark --quick`` tries it.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from bench import __main__ as command
from bench import page
from bench.session import Session
from bench.targets import Moldau, PlainMoldau

PROGRAMS = sorted(set(command.PROGRAMS) - {"spark"})


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


def test_an_unknown_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["nothing"])
    assert "no such program: nothing" in capsys.readouterr().err
