"""Where the files of a run are, and which pipelines this user has run: a note for each.

The notes are in ``$XDG_STATE_HOME/moldau/pipelines``, by default below ``~/.local/state``. They
only name places; what is true of a run is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from moldau.spark.pipeline.paths import checkpoint_directory
from moldau.spark.pipeline.runs.record import RUN_FILE, RunRecord, read_record
from moldau.spark.pipeline.spec import Pipeline

_NOTE: Final = ".place"
_DEEPEST: Final = 4
"""Folders below the one that is asked for: what a checkpoint has in itself is Spark's."""


def place_of(pipeline: Pipeline) -> Path:
    """The checkpoint, or a folder among the notes if that is a server's, or in another store."""
    directory = checkpoint_directory(pipeline)
    if directory is not None:
        return directory.absolute()
    return notes() / _digest(f"{pipeline.shown_master} {pipeline.checkpoint}")


def shown_checkpoint(pipeline: Pipeline) -> str:
    """As it is found from anywhere."""
    directory = checkpoint_directory(pipeline)
    return pipeline.checkpoint if directory is None else str(directory.absolute())


def notes() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state) / "moldau" / "pipelines"


def remember(place: Path) -> None:
    """A run without a note is only not listed."""
    with suppress(OSError, RuntimeError):  # the latter where nobody knows a home
        folder = notes()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / f"{_digest(str(place))}{_NOTE}").write_text(str(place), "utf-8")


def places_of_user() -> list[tuple[Path, RunRecord]]:
    """The last run at each place that there is a note of; notes of places that are gone go, too."""
    found: list[tuple[Path, RunRecord]] = []
    for note in sorted(notes().glob(f"*{_NOTE}")):
        with suppress(OSError):
            place = Path(note.read_text("utf-8"))
            record = read_record(place)
            if record is not None:
                found.append((place, record))
            elif not (place / RUN_FILE).exists():
                note.unlink(missing_ok=True)
    return found


def runs_of_user() -> list[RunRecord]:
    return _sorted([record for _, record in places_of_user()])


def runs_below(directory: Path) -> list[RunRecord]:
    """The last run of each checkpoint in this folder."""
    found = (read_record(place) for place in _places_below(directory, _DEEPEST))
    return _sorted([record for record in found if record is not None])


def _places_below(directory: Path, depth: int) -> Iterator[Path]:
    if (directory / RUN_FILE).exists():
        yield directory
    elif depth:
        with suppress(OSError):
            for one in directory.iterdir():
                if one.is_dir() and not one.is_symlink():
                    yield from _places_below(one, depth - 1)


def _sorted(records: list[RunRecord]) -> list[RunRecord]:
    return sorted(records, key=lambda one: (one.pipeline, one.checkpoint))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
