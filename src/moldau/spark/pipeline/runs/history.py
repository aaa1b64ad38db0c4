"""What a pipeline has reported, run after run: lines of JSON beside the checkpoint, not for ever.

Two files of some megabytes: when one is full it becomes the older one, and the one before it goes.
A line that a killed process has begun and not ended is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from typing import Any, Final

from moldau.spark.pipeline.lags import Lag
from moldau.spark.pipeline.progress import Progress

HISTORY_FILE: Final = "history.jsonl"
OLDER_FILE: Final = "history.older.jsonl"
LARGEST: Final = 4 * 1024 * 1024
"""Bytes of each: some ten thousand batches."""

Line = dict[str, Any]


class History:
    def __init__(self, place: Path, largest: int = LARGEST) -> None:
        self._file = place / HISTORY_FILE
        self._older = place / OLDER_FILE
        self._largest = largest
        self._lock = RLock()
        """Threads write, and so may the handler of a signal, in the middle of writing."""

    def event(self, state: str, time: str, **more: Any) -> None:
        """The run got into another state."""
        self._append({"event": state, "time": time, **more})

    def batch(self, progress: Progress) -> None:
        """Without offsets, which the checkpoint has, and which are many."""
        values = asdict(progress)
        values.pop("offsets", None)
        self._append(values)

    def watched(self, lags: Mapping[str, Lag], letters: Mapping[str, int], time: str) -> None:
        """What the brokers say, by source and by topic of dead letters."""
        sources = {name: asdict(lag) for name, lag in lags.items()}
        self._append({"time": time, "sources": sources, "dead_letters": dict(letters)})

    def _append(self, line: Line) -> None:
        text = json.dumps(line, separators=(",", ":"), default=str)
        # A full disk ends the pipeline by itself, and says so.
        with self._lock, suppress(OSError):
            if self._file.exists() and self._file.stat().st_size + len(text) > self._largest:
                self._file.replace(self._older)
            with self._file.open("ab") as file:
                if file.tell() and not _ends_a_line(self._file):
                    file.write(b"\n")
                file.write(text.encode() + b"\n")

    def read(self) -> list[Line]:
        """All that is left, oldest first."""
        return [line for file in (self._older, self._file) for line in _lines(file)]


def _ends_a_line(file: Path) -> bool:
    with file.open("rb") as opened:
        opened.seek(-1, 2)
        return opened.read(1) == b"\n"


def _lines(file: Path) -> Iterator[Line]:
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and isinstance(found.get("time"), str):
                yield found
