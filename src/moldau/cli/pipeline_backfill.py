"""``moldau pipeline run --from … --until …``: a range of time, told what it means for each sink."""

from __future__ import annotations

from dataclasses import replace

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.output import warn
from moldau.cli.parsing import parse_timestamp_ms
from moldau.spark.pipeline.backfill import Range, narrowed, notes, prepared
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.spec import Pipeline


def parse_range(begin: str | None, until: str | None) -> Range | None:
    if begin is None and until is None:
        return None
    if begin is None or until is None:
        raise UsageError("A range of time has two ends: give --from and --until")
    try:
        found = Range(parse_timestamp_ms(begin), parse_timestamp_ms(until))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if found.begin >= found.end:
        raise UsageError(f"--until {until} is not after --from {begin}")
    return found


def prepare(pipeline: Pipeline, wanted: Range | None, metrics: str | None) -> Pipeline:
    """The pipeline with the checkpoint of the range, if there is one.

    The file's address for metrics is left to the pipeline itself, which may run meanwhile.
    """
    if wanted is None:
        return pipeline
    try:
        found = prepared(replace(pipeline, metrics=metrics), wanted)
    except PipelineError as error:
        raise CommandError("\n".join(error.lines())) from None
    for one in notes(found):
        warn(one)
    return found


def narrow(pipeline: Pipeline, wanted: Range | None) -> Pipeline:
    """The pipeline with the records of the range only; brokers are asked."""
    return pipeline if wanted is None else narrowed(pipeline, wanted)
