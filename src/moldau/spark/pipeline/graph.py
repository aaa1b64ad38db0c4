"""How sources, steps and sinks hang together: names that are missing, cycles, watermarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.spark.pipeline.places import Path
from moldau.spark.pipeline.problems import Problems, did_you_mean
from moldau.spark.pipeline.spec import (
    DeduplicateStep,
    JoinStep,
    Pipeline,
    Sink,
    SqlStep,
    Step,
    WindowStep,
)


def ordered(
    declared: Sequence[str], steps: Mapping[Path, Step], problems: Problems
) -> tuple[Step, ...]:
    """Steps, each after those it reads from; unknown names and cycles are problems.

    ``declared`` are the names of all sources and steps.
    """
    left = dict(steps)
    for path, step in steps.items():
        _check_inputs(path, step, declared, problems)
    found: list[Step] = []
    while left:
        waiting = {step.name.lower() for step in left.values()}
        ready = [
            path
            for path, step in left.items()
            if not any(name.lower() in waiting for name in step.inputs)
        ]
        if not ready:
            _cycle(left, problems)
            return tuple(found)
        found += [left.pop(path) for path in ready]
    return tuple(found)


def check_sinks(sinks: Mapping[Path, Sink], known: Sequence[str], problems: Problems) -> None:
    names = {name.lower() for name in known}
    for path, sink in sinks.items():
        if sink.input and sink.input.lower() not in names:
            hint = did_you_mean(sink.input, known)
            problems.add(
                (*path, "from"), f"there is no source or step {sink.input}: {hint}", sink.input
            )


def check_watermarks(pipeline: Pipeline, places: Mapping[str, Path], problems: Problems) -> None:
    """Streams need one watermark on each way: without it state grows for ever, or rows wait."""
    streaming = {source.name.lower() for source in pipeline.sources if source.streaming}
    marked: dict[str, str] = {}
    """The step that set the watermark, by the name of what carries it."""
    for step in pipeline.steps:
        inputs = [name.lower() for name in step.inputs]
        if not any(name in streaming for name in inputs):
            continue
        streaming.add(step.name.lower())
        carried = next((marked[name] for name in inputs if name in marked), None)
        own = None if isinstance(step, SqlStep) else getattr(step, "watermark", None)
        path = places[step.name]
        if own is not None and carried is not None:
            problems.add(
                (*path, kind_of(step), "watermark"),
                f"step {step.name} reads rows that have the watermark of step {carried}: Spark "
                "takes one only; leave watermark out here",
            )
        elif own is None and carried is None and isinstance(step, (WindowStep, DeduplicateStep)):
            problems.add(
                (*path, kind_of(step)),
                f'step {step.name} of a stream needs watermark, such as watermark = "10m": how '
                "late rows may be",
            )
        elif isinstance(step, JoinStep) and all(name in streaming for name in inputs):
            _check_join(step, path, carried, problems)
        if own is not None or carried is not None:
            marked[step.name.lower()] = carried or step.name


def kind_of(step: Step) -> str:
    """The key that says what a step does."""
    return type(step).__name__.removesuffix("Step").lower()


def _check_join(step: JoinStep, path: Path, carried: str | None, problems: Problems) -> None:
    if step.within is None or (step.watermark is None and carried is None):
        problems.add(
            (*path, "join"),
            f"step {step.name} joins two streams and needs within and watermark, such as within = "
            '"10m", watermark = "10m": how far apart rows that belong together may be, and how '
            "late",
        )


def _check_inputs(path: Path, step: Step, known: Sequence[str], problems: Problems) -> None:
    names = {name.lower() for name in known}
    for name in step.inputs:
        if name and name.lower() not in names:
            others = [one for one in known if one != step.name]
            problems.add(
                (*path, kind_of(step)),
                f"step {step.name}: there is no source or step {name}: "
                f"{did_you_mean(name, others)}",
                name,
            )


def _cycle(left: Mapping[Path, Step], problems: Problems) -> None:
    """Follow inputs until a name comes twice: these are the cycle."""
    by_name = {step.name.lower(): step for step in left.values()}
    way = [next(iter(by_name))]
    while True:
        step = by_name[way[-1]]
        following = next(name.lower() for name in step.inputs if name.lower() in by_name)
        if following in way:
            circle = [by_name[name].name for name in way[way.index(following) :]]
            path = next(path for path, step in left.items() if step.name == circle[0])
            text = " → ".join([*circle, circle[0]])
            problems.add(path, f"steps read from each other in a circle: {text}")
            return
        way.append(following)
