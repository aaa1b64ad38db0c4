"""What a run says of itself, in ``run.json`` beside the checkpoint, and whether that is still so.

A run holds a lock for as long as its process lives. The kernel lets go of it however the process
ends, so that a record that says "running" without a lock is one of a process that was killed.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from moldau.spark.pipeline.runs.lock import is_locked
from moldau.spark.pipeline.runs.processes import identity

RUN_FILE: Final = "run.json"

State = Literal["starting", "running", "stopping", "restarting", "stopped", "failed", "killed"]
"""``starting`` Spark, ``running`` queries, ``stopping`` them, or waiting to try again
(``restarting``). It has ended as it should (``stopped``), with an error (``failed``), or without
another word (``killed``)."""

ENDED: Final = frozenset(("stopped", "failed", "killed"))

_numbers: Final = itertools.count()


@dataclass(frozen=True)
class RunRecord:
    pipeline: str
    file: str
    checkpoint: str
    master: str
    host: str
    pid: int
    process: str | None
    """Which process had the number (``processes.identity``)."""
    started: str
    state: State = "starting"
    since: str = ""
    """Since when it is in this state."""
    error: str | None = None
    """The last failure, also of a run that was restarted after it."""
    failed: str | None = None
    """When that was."""
    restarts: int = 0
    """After failures, since the command was given."""
    failures: int = 0
    """One after the other, with no time of running well in between."""
    metrics: str | None = None
    """Where Prometheus finds them."""

    @property
    def here(self) -> bool:
        return self.host == host_name()

    @property
    def is_this_process(self) -> bool:
        """Also after it has begun anew in the same process."""
        mine = os.getpid()
        return self.here and self.pid == mine and self.process == identity(mine)


def host_name() -> str:
    return socket.gethostname()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_record(place: Path, record: RunRecord) -> None:
    # Each has a name of its own: the handler of a signal may write in the middle of writing.
    growing = place / f".{RUN_FILE}.{next(_numbers)}"
    growing.write_text(json.dumps(asdict(record), indent=2), "utf-8")
    growing.replace(place / RUN_FILE)


def stored_record(place: Path) -> RunRecord | None:
    """As it was written, true or not; None if nothing can be read."""
    try:
        found: dict[str, Any] = json.loads((place / RUN_FILE).read_text("utf-8"))
        known = {one.name for one in fields(RunRecord)}
        values = {name: value for name, value in found.items() if name in known}
        return RunRecord(**values)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def read_record(place: Path) -> RunRecord | None:
    """The run that goes on or went last; one that has not said how it ended was killed."""
    # In this order: a run says how it ended before it lets go of the lock.
    held = is_locked(place)
    record = stored_record(place)
    if record is None or held or record.state in ENDED:
        return record
    return replace(record, state="killed")
