"""The right to run a pipeline on its checkpoint: two runs would write their batches twice."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from moldau.spark.pipeline.runs.history import History
from moldau.spark.pipeline.runs.lock import RunLock, handed_over, is_locked
from moldau.spark.pipeline.runs.notify import notify
from moldau.spark.pipeline.runs.places import place_of, remember, shown_checkpoint
from moldau.spark.pipeline.runs.processes import identity
from moldau.spark.pipeline.runs.record import (
    RunRecord,
    State,
    host_name,
    now,
    stored_record,
    write_record,
)
from moldau.spark.pipeline.spec import Pipeline


class AlreadyRunningError(RuntimeError):
    """Another process runs this pipeline on this checkpoint."""

    def __init__(self, pipeline: Pipeline, other: RunRecord | None) -> None:
        who = "another process"
        if other is not None:
            host = "" if other.here else f" on {other.host}"
            who = f"process {other.pid}{host}, since {other.started}"
        super().__init__(
            f"Pipeline {pipeline.name} runs already on checkpoint {pipeline.checkpoint}: {who}. "
            f"`moldau pipeline stop {pipeline.file}` ends it"
        )


def refuse_second(pipeline: Pipeline) -> None:
    """``AlreadyRunningError`` if somebody runs it; nothing is left of the question."""
    place = place_of(pipeline)
    if is_locked(place) and not handed_over():
        raise AlreadyRunningError(pipeline, stored_record(place))


class Claim:
    """Held until its end, or that of the process; what happens meanwhile is written down."""

    def __init__(self, pipeline: Pipeline) -> None:
        """``AlreadyRunningError`` if somebody else runs it; OSError if nothing can be written."""
        self.place = place_of(pipeline)
        self.history = History(self.place)
        try:
            self._lock = RunLock(self.place)
        except BlockingIOError:
            raise AlreadyRunningError(pipeline, stored_record(self.place)) from None
        before = stored_record(self.place)
        if before is not None and not before.is_this_process:
            before = replace(before, restarts=0, failures=0)
        self.record = RunRecord(
            pipeline=pipeline.name,
            file=str(Path(pipeline.file).absolute()),
            checkpoint=shown_checkpoint(pipeline),
            master=pipeline.shown_master,
            host=host_name(),
            pid=os.getpid(),
            process=identity(os.getpid()),
            started=now(),
            metrics=pipeline.metrics,
            error=None if before is None else before.error,
            failed=None if before is None else before.failed,
            restarts=0 if before is None else before.restarts,
            failures=0 if before is None else before.failures,
        )
        self.change("starting")
        remember(self.place)

    @property
    def restarted(self) -> bool:
        """Whether this process has failed before, and tries again."""
        return self.record.failures > 0

    def change(self, state: State, **changes: Any) -> None:
        moment = now()
        self.record = replace(self.record, state=state, since=moment, **changes)
        write_record(self.place, self.record)
        notify(state)
        error = changes.get("error")
        self.history.event(state, moment, **({"error": error} if error else {}))

    def fail(self, message: str, *, again: bool) -> None:
        """``again``: whether it will be tried once more."""
        record = self.record
        self.change(
            "restarting" if again else "failed",
            error=message,
            failed=now(),
            failures=record.failures + 1,
            restarts=record.restarts + again,
        )

    def forget_failures(self, after: float) -> None:
        """Count anew if it has run well for so many seconds."""
        if self.record.state == "running":
            passed = datetime.fromisoformat(now()) - datetime.fromisoformat(self.record.since)
            if passed.total_seconds() >= after:
                self.record = replace(self.record, failures=0)

    def begin_anew(self) -> NoReturn:
        """Run the same command in the same process, with everything read and started afresh."""
        if self.record.state != "restarting":
            self.change("restarting", failures=0)
        self._lock.hand_over()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.record.state != "failed":
            if error is None or isinstance(error, KeyboardInterrupt):
                self.change("stopped")
            else:
                self.fail(str(error) or type(error).__name__, again=False)
        self._lock.close()
