"""How sources, steps and sinks hang together: names that are missing, cycles, watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.spark.pipeline.problems import Problems, did_you_mean
from moldau.spark.pipeline.spec import (
    QUARANTINE,
    DeduplicateStep,
    JoinStep,
    Pipeline,
    Sink,
    Step,
    WindowStep,
)
from moldau.toml_places import Path


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
            if len(set(map(str.lower, declared))) == len(declared):  # else that is the mistake
                _cycle(left, problems)
            return tuple(found)
        found += [left.pop(path) for path in ready]
    return tuple(found)


def check_sinks(sinks: Mapping[Path, Sink], known: Sequence[str], problems: Problems) -> None:
    names = {name.lower() for name in known}
    for path, sink in sinks.items():
        if sink.input and sink.input.lower() not in names:
            hint = did_you_mean(sink.input, known)
            if sink.input.lower() == QUARANTINE:
                hint = f'no rule says on_failure = "{QUARANTINE}"'
            problems.add(
                (*path, "from"), f"there is no source or step {sink.input}: {hint}", sink.input
            )


def watermarked(steps: Iterable[Step]) -> dict[str, str]:
    """The step that set the watermark, by the name of each step whose rows carry one."""
    found: dict[str, str] = {}
    for step in steps:
        if getattr(step, "watermark", None) is not None:
            found[step.name.lower()] = step.name
        for name in step.inputs:
            if name.lower() in found:
                found[step.name.lower()] = found[name.lower()]
    return found


def check_watermarks(pipeline: Pipeline, places: Mapping[str, Path], problems: Problems) -> None:
    """Streams need one watermark on each way: without it state grows for ever, or rows wait."""
    streaming = {source.name.lower() for source in pipeline.sources if source.streaming}
    carried = watermarked(pipeline.steps)
    for step in pipeline.steps:
        flowing = [name for name in map(str.lower, step.inputs) if name in streaming]
        if not flowing:
            continue
        streaming.add(step.name.lower())
        marked = [carried[name] for name in flowing if name in carried]
        path = (*places[step.name], kind_of(step))
        if isinstance(step, JoinStep):
            if len(flowing) == 2:
                _check_join(step, path, len(marked), problems)
        elif isinstance(step, (WindowStep, DeduplicateStep)):
            if step.watermark is not None and marked:
                problems.add(
                    (*path, "watermark"),
                    f"step {step.name} reads rows that have the watermark of step {marked[0]}: "
                    "Spark takes one only; leave watermark out here",
                )
            elif step.watermark is None and not marked:
                problems.add(
                    path,
                    f'step {step.name} of a stream needs watermark, such as watermark = "10m": '
                    "how late rows may be",
                )


def kind_of(step: Step) -> str:
    """The key that says what a step does."""
    return type(step).__name__.removesuffix("Step").lower()


def _check_join(step: JoinStep, path: Path, marked: int, problems: Problems) -> None:
    """``marked``: how many of the two streams carry a watermark already."""
    if step.within is None or (step.watermark is None and marked < 2):
        problems.add(
            path,
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


def check_idle(pipeline: Pipeline, problems: Problems) -> None:
    """Windows that close in silence need a stream, and a watermark that can be raised."""
    trigger, path = pipeline.trigger, ("trigger", "idle")
    if trigger.idle is None:
        return
    if trigger.ends:
        problems.add(path, "idle is for pipelines that go on: leave out available_now and batch")
    elif not any(getattr(step, "watermark", None) for step in pipeline.steps):
        problems.add(path, "idle closes windows in silence, and no step has a watermark")
