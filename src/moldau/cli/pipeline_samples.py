"""``moldau pipeline test``: cases with sample rows, and a readable diff where they fail."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.exit_codes import CommandError, ExitCode, UsageError
from moldau.cli.output import note, print_json, print_line
from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.samples.cases import Case, file_of_tests, load_cases

if TYPE_CHECKING:
    from moldau.spark.pipeline.samples.outcome import Outcome
    from moldau.spark.pipeline.spec import Pipeline


def find_cases(pipeline: Pipeline, file: Path | None, names: Sequence[str]) -> list[Case]:
    """The cases of the file beside the pipeline's, or of another; ``PipelineError`` as usual."""
    path = file if file is not None else file_of_tests(pipeline.file)
    try:
        cases = load_cases(path, pipeline)
    except FileNotFoundError:
        raise CommandError(
            f"There is no {path}: tests of {pipeline.file} are written there", ExitCode.NOT_FOUND
        ) from None
    known = [case.name for case in cases]
    for name in names:
        if name not in known:
            raise UsageError(f"There is no case {name!r} in {path}: {did_you_mean(name, known)}")
    return [case for case in cases if not names or case.name in names]


def run(
    pipeline: Pipeline, parameters: Mapping[str, str], cases: Sequence[Case], *, json: bool
) -> bool:
    """Whether all have passed."""
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    note("Starting Spark, which takes some seconds.")
    with _quiet():
        from moldau.spark.pipeline.samples.run_cases import run_cases, sample_session
        from moldau.spark.session import JavaNotFoundError

        try:
            spark = sample_session(pipeline)
        except JavaNotFoundError as error:
            raise CommandError(str(error)) from None
        started = time.monotonic()
        try:
            for outcome in run_cases(pipeline, parameters, cases, spark):
                outcomes.append(outcome)
                if not json:
                    _tell(outcome)
        finally:
            spark.stop()
    failed = sum(not one.passed for one in outcomes)
    seconds = {"spark": started - begin, "tests": sum(one.seconds for one in outcomes)}
    if json:
        print_json(
            {
                "passed": len(outcomes) - failed,
                "failed": failed,
                "seconds": {name: round(value, 3) for name, value in seconds.items()},
                "cases": [one.as_json() for one in outcomes],
            }
        )
    else:
        print_line(
            f"{len(outcomes) - failed} passed, {failed} failed in {seconds['tests']:.1f} s "
            f"(and {seconds['spark']:.1f} s for the start of Spark)"
        )
    return not failed


def _tell(outcome: Outcome) -> None:
    sign = "✓" if outcome.passed else "✗"
    print_line(f"{sign} {outcome.case.name} ({outcome.seconds:.1f} s)")
    for line in outcome.lines():
        print_line(line)
    sys.stdout.flush()


@contextmanager
def _quiet() -> Iterator[None]:
    """What Spark's process says at its start is of no interest here."""
    before = os.dup(sys.stderr.fileno())
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())
        yield
    finally:
        os.dup2(before, sys.stderr.fileno())
        os.close(before)
