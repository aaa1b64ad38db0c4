"""Whatever a cluster puts into names and messages, commands show it and terminals do not obey."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType

import pytest
import typer

from moldau.cli import output
from moldau.cli.main import main
from moldau.cli.render import FORMATS, Columns, make_renderer
from moldau.records.record import Record

CLI = Path(output.__file__).parent
EVIL = "\x1b]0;title\x07\x1b[31mevil[/bold][link=http://x]\u009b31m\u202e\u2028\r\0\x7f\nfake\trow"
OWN = re.compile(r"\x1b\[[0-9;]*[mHJ]|\x1b\[\?25[hl]|\x1b\[[12]?[KA]|\r")
"""What commands themselves tell terminals: colours, and where to draw tables and bars."""

CALLS: dict[str, Callable[[], object]] = {
    "print_table": lambda: output.print_table(["GROUP", "MEMBERS"], [(EVIL, [EVIL, None])]),
    "print_line": lambda: output.print_line(EVIL),
    "print_text": lambda: output.print_text(EVIL),
    "print_json": lambda: output.print_json({EVIL: EVIL}),
    "print_json_line": lambda: output.print_json_line([EVIL]),
    "note": lambda: output.note(EVIL),
    "tell": lambda: output.tell(EVIL),
    "warn": lambda: output.warn(EVIL),
    "say": lambda: output.say(EVIL),
    "progress": lambda: _in_progress(),
    "confirm": lambda: _confirm(),
    "clear_terminal": output.clear_terminal,
    "write_records": lambda: output.write_records(_rendered()),
    "on_terminal": output.on_terminal,
}
LINES_ARE_MEANT = {"print_text", "tell", "write_records"}


def _in_progress() -> None:
    with output.progress(EVIL, None) as bar:
        bar.advance(1)


def _confirm() -> None:
    with suppress(typer.Abort):  # nobody answers
        output.confirm(EVIL, yes=False)


def _rendered() -> list[bytes]:
    record = Record(0, 0, EVIL.encode() + b"\xff\x1b", EVIL.encode(), ((EVIL, EVIL.encode()),))
    columns = Columns(True, True, True, True, True)
    return [
        make_renderer(form, columns=columns, escape=True)("t", 0, record)
        for form in (*FORMATS, "%t %k %v %s %h %K")
    ]


class Terminal(io.TextIOWrapper):
    def __init__(self, *, looked_at: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._looked_at = looked_at

    def isatty(self) -> bool:
        return self._looked_at

    def shown(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


def test_every_way_to_print_is_tried() -> None:
    ways = {
        name
        for name, value in vars(output).items()
        if isinstance(value, FunctionType)
        and inspect.getmodule(inspect.unwrap(value)) is output
        and not name.startswith("_")
    }
    assert ways == set(CALLS)


@pytest.mark.parametrize("looked_at", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("way", CALLS)
def test_nothing_of_a_name_acts_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, way: str, looked_at: bool
) -> None:
    out, err = Terminal(looked_at=looked_at), Terminal(looked_at=looked_at)
    monkeypatch.setattr(sys, "stdin", Terminal(looked_at=looked_at))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    CALLS[way]()
    shown = OWN.sub("", out.shown() + err.shown())
    assert "\x1b" not in shown
    assert shown.replace("\n", "").replace("\t", "").isprintable()
    if way not in LINES_ARE_MEANT:
        assert "\nfake" not in shown


def test_a_row_is_a_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table([], [("a\nb\tc", 1)])
    assert capsys.readouterr().out == "a\\nb\\tc\t1\n"


def test_json_keeps_what_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"group": EVIL})
    assert json.loads(capsys.readouterr().out) == {"group": EVIL}


def test_pipes_get_records_as_they_are() -> None:
    assert make_renderer("text")("t", 0, Record(0, 0, None, b"\x1b[31m\xff", ())) == (
        b"\x1b[31m\xff\n"
    )
    assert make_renderer("%v", escape=True, delimiter=r"\x1b[0m")(
        "t", 0, Record(0, 0, None, b"a\nb\x1b", ())
    ) == (b"a\nb\\x1b\x1b[0m")


def test_tracebacks_and_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise RuntimeError(EVIL)

    monkeypatch.setattr("moldau.cli.app.invoke", fail)
    assert main(["topic", "list"]) == 1
    assert main(["topic", "list", "--debug"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.replace("\n", "").replace("\t", "").isprintable()


def test_no_command_prints_by_itself() -> None:
    """The linter refuses ``print``; here is what else leads to a terminal."""
    ways = {"stdout", "stderr", "echo", "secho", "prompt", "Console", "Live"}
    allowed = {
        "output.py": {"stdout", "stderr", "Console"},
        "tables.py": {"Console"},
        "pipeline_pictures.py": {"Console", "stdout"},
        "pipeline_view.py": {"Console", "Live", "stderr"},
        "supervisor.py": {"stdout", "stderr"},  # of children
    }
    harmless = {"isatty", "flush", "fileno", "encoding"}
    for path in CLI.glob("*.py"):
        tree = ast.parse(path.read_text())
        looks = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr in harmless
        }
        found = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and id(node) not in looks
        } | {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert found & ways <= allowed.get(path.name, set()), path.name
