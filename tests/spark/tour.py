"""docs/pipelines.md, walked through as it stands: each block is run, what is shown has to come.

Files have their names in the first line, commands have a terminal, and a block of text is what the
screen of the block before it shows. Run as a program, it says how long each block took; with
``--write``, it writes what was shown into the page.

    .venv/bin/python -m tests.spark.tour
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.spark.java_options import JAVA_OPTIONS
from tests.support.process import free_ports
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

from moldau.spark.java import find_java

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "pipelines.md"
PATIENCE: Final = 240.0
METRICS: Final = "9404"

_ALL_LINES: Final = re.DOTALL | re.MULTILINE
_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", _ALL_LINES)
_NAME: Final = re.compile(r"# (\S+)\n")
_BROKER: Final = "make run\n"
_LASTING: Final = re.compile(r"moldau pipeline run \S+\n")
"""What goes on until it is stopped, in a terminal of its own."""
_LOOKING: Final = re.compile(
    r"(python look|curl|moldau (consume|dlq show|pipeline (status|list|graph|validate)))\b.*\n"
)
"""What changes nothing is done again until it shows what it should: rows are on their way."""
_REFUSAL: Final = re.compile(r"\S+\.toml:\d+: ")
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_VARYING: Final = (
    # But not those of the records.
    (re.compile(r"(?!2026-11-0[12])\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:[\d.]+)?Z?"), "TIME"),
    (re.compile(r"\d+\.\d s\b"), "SECONDS"),
    (re.compile(r"\b\d:\d\d:\d\d\b"), "CLOCK"),
    (re.compile(r"process \d+( on \S+)?"), "PROCESS"),
    (re.compile(f"^[{_SPINNER}]"), "SPINNER"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"/\S+/shop/"), "/PLACE/"),
    (re.compile(r"127\.0\.0\.1:\d+|localhost:\d+"), "ADDRESS"),
)
_VARYING_COLUMNS: Final = frozenset(
    ("BATCH", "BEGUN", "ROWS/S", "BATCH MS", "LAST", "PID", "SINCE")
)


class Block(NamedTuple):
    line: int
    language: str
    text: str
    shown: str | None
    """The text that stands after it."""


class TourError(AssertionError):
    """The page is not what happens."""


def blocks(page: str) -> Iterator[Block]:
    found = [(page[: one.start()].count("\n") + 1, one[1], one[2]) for one in _FENCE.finditer(page)]
    before = "text"
    for (line, language, text), after in zip(found, [*found[1:], None], strict=True):
        if language == "text":
            if before == "text":
                raise TourError(f"line {line}: there is nothing before it that could show this")
        else:
            yield Block(line, language, text, after[2] if after and after[1] == "text" else None)
        before = language
    if page.count("```") != 2 * len(found):
        raise TourError("there are fences that begin or end no block")


def cells(lines: list[str]) -> list[list[str]]:
    """What has to be equal: neither blanks, nor what each run has of its own."""
    found: list[list[str]] = []
    heading: list[str] = []
    for line in lines:
        text = line.strip()
        if not text:
            heading = []
            continue
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        row = re.split(r"\s{2,}", text)
        if all(re.fullmatch(r"[A-Z/ ]+", one) for one in row) and len(row) > 1:
            heading = row
        elif len(row) == len(heading):
            row = [
                "*" if name in _VARYING_COLUMNS else one
                for name, one in zip(heading, row, strict=True)
            ]
        found.append(row)
    return found


class Tour:
    """A folder with a clone beside it, and what was started."""

    def __init__(self, place: Path) -> None:
        self._directory = place / "moldau"
        self._after = place / "directory"
        programs = place / "bin"
        for one in (self._directory, programs):
            one.mkdir()
        # Everything is installed: what make would do is only looked at.
        (programs / "make").write_text(
            f'#!/bin/sh\nexec {shutil.which("make")} --dry-run -C {ROOT} "$@" > /dev/null\n'
        )
        (programs / "make").chmod(0o755)
        port, metrics = free_ports(2)
        self._port, self._metrics = str(port), str(metrics)
        self._env: Mapping[str, str] = {
            **{name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "CI")},
            "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "MOLDAU_BOOTSTRAP": f"127.0.0.1:{port}",
            "XDG_STATE_HOME": str(place / "state"),
            "JAVA_HOME": str(find_java().home),
            "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        }
        self._stack = ExitStack()
        self._pipeline: Terminal | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take(self, block: Block) -> list[str] | None:
        """Do what a block says; gives what it shows, if the page says what that is."""
        match block.language:
            case "sh":
                return self._run(block)
            case "toml" | "python":
                named = _NAME.match(block.text)
                if named is None or block.shown is not None:
                    raise TourError(f"line {block.line}: this is no file with a name")
                (self._directory / named[1]).write_text(self._adapted(block.text))
                return None
        raise TourError(f"line {block.line}: nobody knows how to run {block.language!r}")

    def ended(self) -> int | None:
        """How the pipeline of the third terminal has ended."""
        return None if self._pipeline is None else self._pipeline.wait(PATIENCE)

    def _adapted(self, text: str) -> str:
        return text.replace(METRICS, self._metrics)

    def _run(self, block: Block) -> list[str] | None:
        if block.text == _BROKER:
            subprocess.run(["make", "run"], env=self._env, check=True)
            broker = self._start(f"exec moldau up --port {self._port}")
            eventually(lambda: any("moldau ready" in one for one in broker.screen()))
            return None
        if _LASTING.fullmatch(block.text):
            pipeline = self._pipeline = self._start(f"exec {block.text}")
            eventually(
                lambda: any(" · running · " in one for one in pipeline.screen()),
                "\n".join(pipeline.screen()),
                PATIENCE,
            )
            return None
        if block.shown and block.shown[0] in _SPINNER:
            self._done(block, code=0)
            assert self._pipeline is not None
            return _until(block.shown, self._pipeline.screen)
        refused = block.shown is not None and _REFUSAL.match(block.shown) is not None
        if block.shown is not None and re.fullmatch(f"({_LOOKING.pattern})+", block.text):
            return _until(block.shown, lambda: self._done(block, code=int(refused)))
        shown = self._done(block, code=int(refused))
        if block.shown is None and any(shown):
            raise TourError(f"line {block.line}: it shows {shown}")
        return None if block.shown is None else shown

    def _done(self, block: Block, code: int) -> list[str]:
        text = f"set -eu\n{self._adapted(block.text)}\npwd > {self._after}"
        with Terminal(["bash", "-c", text], cwd=self._directory, env=self._env) as terminal:
            found = terminal.wait(PATIENCE)
            shown = terminal.screen()
        if found != code:
            told = "\n".join(shown)
            if not _LOOKING.match(block.text):
                raise TourError(f"line {block.line}: it ends with {found}:\n{told}")
        shown = [one.replace(self._port, "9092").replace(self._metrics, METRICS) for one in shown]
        if found == 0:
            self._directory = Path(self._after.read_text().strip())
        return shown

    def _start(self, text: str) -> Terminal:
        terminal = Terminal(["bash", "-c", text], cwd=self._directory, env=self._env)
        return self._stack.enter_context(terminal)


def _until(expected: str, look: Callable[[], list[str]], patience: float = 120.0) -> list[str]:
    """What is shown when it is what was expected, or in the end."""
    end = time.monotonic() + patience
    while True:
        shown = look()
        if cells(shown) == cells(expected.splitlines()) or time.monotonic() > end:
            return shown
        time.sleep(0.1)


def compare(block: Block, shown: list[str] | None) -> None:
    if shown is None or block.shown is None:
        return
    if cells(shown) != cells(block.shown.splitlines()):
        told = "\n".join(shown)
        raise TourError(f"line {block.line}: the page has\n{block.shown}\nbut it is\n{told}")


def walk(page: str, place: Path, check: Callable[[Block, list[str] | None], None]) -> None:
    with Tour(place) as tour:
        for block in blocks(page):
            check(block, tour.take(block))
        if tour.ended() not in (None, 0):
            raise TourError("the pipeline ends with an error")


def main() -> None:
    """Take the tour, and say how long each block took."""
    writing = "--write" in sys.argv[1:]
    page = PAGE.read_text()
    if writing:
        # Nothing is expected, but of which kind it is.
        begun = re.compile(r"^```text\n(?:(?!```)([^\n]{0,20}).*?)?^```$", _ALL_LINES)
        page = begun.sub(r"```text\n\1\n```", page)
    begin = last = time.monotonic()
    written = 0
    wrong: list[TourError] = []

    def told(block: Block, shown: list[str] | None) -> None:
        nonlocal last, page, written
        now = time.monotonic()
        print(f"{now - last:6.1f} s  line {block.line}: {block.text.splitlines()[0]}", flush=True)
        last = now
        if not writing:
            try:
                compare(block, shown)
            except TourError as error:
                wrong.append(error)
        elif shown is not None:
            text = "".join(f"{one}\n" for one in shown if one)
            at = page.index("```text\n", page.index(f"```{block.language}\n{block.text}", written))
            written = at
            page = f"{page[:at]}```text\n{text}{page[page.index('```', at + 3) :]}"

    with tempfile.TemporaryDirectory() as place:
        walk(page, Path(place), told)
    if writing:
        PAGE.write_text(page)
    print(f"{last - begin:6.1f} s  in all")
    if wrong:
        sys.exit("\n\n".join(map(str, wrong)))


if __name__ == "__main__":
    main()
