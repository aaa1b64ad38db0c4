"""``moldau pipeline``: status, list, stop, restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.exit_codes import CommandError, ExitCode
from moldau.cli.options import Json, Timeout
from moldau.cli.output import note, print_json, print_line, print_table
from moldau.cli.pipeline_files import File, Parameters, load
from moldau.cli.session import DEFAULT_TIMEOUT
from moldau.spark.pipeline.runs.record import ENDED

if TYPE_CHECKING:
    from moldau.model import TopicPartition
    from moldau.spark.pipeline.runs.record import RunRecord
    from moldau.spark.pipeline.status import PipelineStatus

Run = Annotated[
    str,
    typer.Argument(metavar="NAME|FILE", help="A pipeline's name, as `list` shows it, or its file."),
]
Wait = Annotated[
    float,
    typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for it."),
]
_PATIENCE = 60.0
_LONGER = 180.0
"""Until it has ended and begun anew: Spark takes its time on a machine that has other work."""
_PAUSE = 0.1


def status(
    file: File,
    parameter: Parameters = [],  # noqa: B006 - typer copies it
    json: Json = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Whether a pipeline runs, and how far it is, from its checkpoint and the brokers."""
    from moldau.spark.pipeline.status import status_of

    pipeline = load(file, parameter)
    try:
        found = status_of(pipeline, timeout=timeout)
    except ValueError as error:
        raise CommandError(str(error)) from None
    if json:
        print_json(_document(pipeline.name, found))
        return
    print_line(f"{pipeline.name} {_sentence(found.run)}")
    if found.run is not None and found.run.error is not None:
        print_line(f"last error, at {found.run.failed}: {found.run.error}")
    print_table(
        [
            "SINK",
            "BATCH",
            "BEGUN",
            "READ",
            "LAG",
            "BEHIND",
            "WATERMARK",
            "ROWS/S",
            "BATCH MS",
            "LAST",
        ],
        [
            (
                one.sink,
                one.batch,
                one.planned,
                sum(one.offsets.values()),
                one.lag,
                _age(one.lag_seconds),
                one.watermark,
                one.progress and one.progress.rows_per_second,
                one.progress and one.progress.batch_ms,
                one.progress and one.progress.time,
            )
            for one in found.sinks
        ],
        optional=("BEGUN", "BATCH MS", "LAST", "READ"),
    )
    print_table(
        ["SOURCE", "LAG", "BEHIND"],
        [(one.source, one.lag, _age(one.lag_seconds)) for one in found.sources],
    )


def list_runs(
    directory: Annotated[
        Path | None,
        typer.Argument(help="A folder of checkpoints; without it, all that you have run here."),
    ] = None,
    json: Json = False,
) -> None:
    """Pipelines that run, or have run, on this machine."""
    from dataclasses import asdict

    from moldau.spark.pipeline.runs.places import runs_below, runs_of_user

    found = runs_of_user() if directory is None else runs_below(directory)
    if json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        note("None yet. `moldau pipeline templates` lists ready-made ones.")
    print_table(
        ["NAME", "STATE", "SINCE", "PID", "HOST", "RESTARTS", "FILE", "CHECKPOINT"],
        [
            (one.pipeline, one.state, one.since, one.pid, one.host, one.restarts, one.file,
             one.checkpoint)
            for one in found
        ],
        optional=("HOST", "RESTARTS", "CHECKPOINT"),
    )  # fmt: skip


def stop(
    name: Run,
    parameter: Parameters = [],  # noqa: B006
    timeout: Wait = _PATIENCE,
) -> None:
    """End a pipeline after the batch that it is at."""
    import signal

    place, record = _running(name, parameter)
    _send(record, signal.SIGTERM)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        now = _read(place)
        if now is None or now.state in ENDED or now.started != record.started:
            break
        time.sleep(_PAUSE)
    else:
        raise CommandError(
            f"Pipeline {record.pipeline} (process {record.pid}) was asked to stop, and has not "
            f"done so within {timeout:g} s",
            ExitCode.TIMED_OUT,
        )
    if now is not None and now.state == "failed":
        raise CommandError(f"Pipeline {record.pipeline} failed: {now.error}")
    print_line(f"{record.pipeline} has stopped (process {record.pid})")


def restart(
    name: Run,
    parameter: Parameters = [],  # noqa: B006
    timeout: Wait = _LONGER,
) -> None:
    """Have a pipeline begin anew in its process: its file is read again, Spark starts again."""
    from moldau.spark.pipeline.signals import RESTART

    place, record = _running(name, parameter)
    _send(record, RESTART)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        now = _read(place)
        if now is not None and now.state in ENDED:
            said = now.error if now.state == "failed" else f"process {now.pid} has said why"
            raise CommandError(f"Pipeline {record.pipeline} has not come back: {said}")
        if now is not None and now.started != record.started and now.state == "running":
            print_line(f"{record.pipeline} runs anew (process {now.pid})")
            return
        time.sleep(_PAUSE)
    raise CommandError(
        f"Pipeline {record.pipeline} (process {record.pid}) was asked to begin anew, and does not "
        f"run after {timeout:g} s",
        ExitCode.TIMED_OUT,
    )


def _read(place: Path) -> RunRecord | None:
    from moldau.spark.pipeline.runs.record import read_record

    return read_record(place)


def _running(name: str, parameters: list[str]) -> tuple[Path, RunRecord]:
    """Where the run that is meant has its files, and what it says of itself."""
    place, record = _find(name, parameters)
    if record is None:
        raise CommandError(f"Pipeline {name} has not run yet", ExitCode.NOT_FOUND)
    if record.state in ENDED:
        raise CommandError(
            f"Pipeline {record.pipeline} does not run: it {_past(record)} at {record.since}",
            ExitCode.NOT_FOUND,
        )
    return place, record


def _find(name: str, parameters: list[str]) -> tuple[Path, RunRecord | None]:
    from moldau.spark.pipeline.runs.places import place_of, places_of_user

    if not name.endswith(".toml"):
        named = [(place, record) for place, record in places_of_user() if record.pipeline == name]
        alive = [one for one in named if one[1].state not in ENDED]
        if len(alive) > 1:
            places = ", ".join(record.checkpoint for _, record in alive)
            raise CommandError(
                f"Several pipelines {name} run, on {places}: name the file of one of them"
            )
        if alive or named:
            return (alive or named)[0]
    place = place_of(load(name, parameters))
    return place, _read(place)


def _send(record: RunRecord, number: int) -> None:
    import os

    from moldau.spark.pipeline.runs.processes import identity

    if not record.here:
        raise CommandError(
            f"Pipeline {record.pipeline} runs on {record.host}, as process {record.pid}: ask there"
        )
    # The number may be another process's by now.
    if record.process is None or identity(record.pid) != record.process:
        raise CommandError(
            f"Pipeline {record.pipeline} is just starting, or ending: try again in a moment"
        )
    try:
        os.kill(record.pid, number)
    except ProcessLookupError:
        pass  # ended this moment
    except PermissionError:
        raise CommandError(
            f"Process {record.pid} is another user's: you may not signal it"
        ) from None


def _sentence(run: RunRecord | None) -> str:
    if run is None:
        return "has left no word of a run"
    where = f"process {run.pid} on {run.host}"
    again = f", restarted {run.restarts} times" if run.restarts else ""
    match run.state:
        case "running":
            return f"is running since {run.since} ({where}, alive{again})"
        case "starting" | "stopping" | "restarting":
            return f"is {run.state} since {run.since} ({where}, alive{again})"
        case "killed":
            return f"is not running: {where} was killed; it was last heard of at {run.since}"
        case _:
            return f"is not running: it {_past(run)} at {run.since} ({where}{again})"


def _past(run: RunRecord) -> str:
    return {"killed": "was killed", "failed": "failed"}.get(run.state, "was stopped")


def _document(name: str, found: PipelineStatus) -> dict[str, Any]:
    from dataclasses import asdict

    run = found.run
    return {
        "pipeline": name,
        "state": None if run is None else run.state,
        "alive": run is not None and run.state not in ENDED,
        "run": None if run is None else asdict(run),
        "sinks": [{**asdict(one), "offsets": _nested(one.offsets)} for one in found.sinks],
        "sources": [asdict(one) for one in found.sources],
    }


def _age(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _nested(offsets: dict[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        found.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return found
