"""Which sinks share a streaming query, and where the stream of a query ends. Nothing of Spark.

A query streams as far as it must: windows, joins of streams and deduplication keep state from batch
to batch, and so belong to the stream. What comes after the last of them is computed from a batch's
rows, as often as there are sinks but from one reading. The frames at which the stream ends are its
frontier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moldau.spark.pipeline.graph import watermarked
from moldau.spark.pipeline.spec import (
    DeduplicateStep,
    JoinStep,
    OutputMode,
    Pipeline,
    QuarantineStep,
    Sink,
    Step,
    TopicSink,
    WindowStep,
)

_LONGEST_FOLDER: Final = 100


@dataclass(frozen=True)
class StreamPlan:
    """How the frames of a query are computed. Names are in lower case."""

    frontier: tuple[str, ...]
    """Streamed, and handed over batch by batch."""
    spread: frozenset[str]
    """Frames in the stream that are used more than once and computed once."""
    computed: tuple[str, ...]
    """Steps that are computed from a batch, each after its inputs."""
    reused: frozenset[str]
    """Those of them that several steps or sinks read."""
    puts_aside: bool = False
    """Whether rows are put aside that are computed so, which have the batch's time."""
    judged: frozenset[str] = frozenset()
    """Frames of the frontier whose rules are applied to a batch, since rows of it are put aside."""


class Flow:
    """The streams of a pipeline: which frame is made of which."""

    def __init__(
        self, pipeline: Pipeline, streamed: Collection[str], placed: Collection[str] = ()
    ) -> None:
        """``streamed``: steps that only a stream can compute, in lower case.

        ``placed``: sources and steps whose rows must come from where they are read.
        """
        self.sources = [one.name.lower() for one in pipeline.sources if one.streaming]
        self.inputs: dict[str, tuple[str, ...]] = dict.fromkeys(self.sources, ())
        self.steps: dict[str, Step] = {}
        self._streamed: set[str] = set()
        for step in pipeline.steps:
            name = step.name.lower()
            flowing = tuple(one for one in map(str.lower, step.inputs) if one in self.inputs)
            if flowing:
                self.inputs[name] = flowing
                self.steps[name] = step
                # Rows of two streams are not in one batch for being read at the same time.
                met = len(flowing) > 1 and not isinstance(step, QuarantineStep)
                if name in streamed or met:
                    self._streamed.add(name)
        self._marked = watermarked(pipeline.steps)
        self._placed = self._before(name for name in placed if name in self.inputs)

    def is_stream(self, sink: Sink) -> bool:
        return sink.input.lower() in self.inputs

    def needed(self, sinks: Iterable[Sink]) -> list[str]:
        """All frames that these sinks' rows come from."""
        return self._before(sink.input.lower() for sink in sinks)

    def sources_of(self, sinks: Iterable[Sink]) -> set[str]:
        return {name for name in self.needed(sinks) if name in self.sources}

    def stateful(self, sink: Sink) -> frozenset[str]:
        """The steps on the way to a sink that remember rows, or may do so.

        Rows that are put aside have the time of the batch, which only the stream knows, and wait
        for nothing.
        """
        found = self._streamed.intersection(self.needed([sink]))
        return frozenset(name for name in found if not isinstance(self.steps[name], QuarantineStep))

    def watermarks(self, sink: Sink) -> frozenset[tuple[Any, ...]]:
        """What holds a sink's rows back. A query has one watermark, the earliest of all."""
        found: set[tuple[Any, ...]] = set()
        for name in self.stateful(sink):
            match self.steps[name]:
                case WindowStep(watermark=int() as late, time=time):
                    found.add((time, late))
                case DeduplicateStep(watermark=int() as late, time=time):
                    found.add((time, late))
                case JoinStep(watermark=int() as late, left_time=left, right_time=right):
                    found |= {(left, late), (right, late)}
                case _ if name not in self._marked:
                    found.add((name,))  # in Python or SQL, where nobody can see it
        return frozenset(found)

    def plan(self, sinks: Sequence[Sink], frontier: Sequence[str] | None = None) -> StreamPlan:
        """``frontier``: where the stream ends, if that is settled; ``ValueError`` if it cannot."""
        if frontier is None:
            frontier = self._frontier(sinks)
        elif not self.inputs.keys() >= set(frontier):
            gone = ", ".join(name for name in frontier if name not in self.inputs)
            raise ValueError(f"the checkpoint has rows of {gone}, which is not there any more")
        inside = self._before(frontier)
        computed = [name for name in self.needed(sinks) if name not in inside]
        reads = [sink.input.lower() for sink in sinks]
        reads += [one for name in computed for one in self.inputs[name]]
        if self._streamed.intersection(computed) or not {*frontier, *computed}.issuperset(reads):
            raise ValueError(f"the stream cannot end at {', '.join(frontier)}")
        aside = [name for name in computed if isinstance(self.steps[name], QuarantineStep)]
        return StreamPlan(
            tuple(frontier),
            self._spread(inside, frontier),
            tuple(computed),
            frozenset(name for name in computed if reads.count(name) > 1),
            bool(aside),
            frozenset(one for name in aside for one in self.inputs[name] if one in frontier),
        )

    def _before(self, names: Iterable[str]) -> list[str]:
        """These frames and all that they are made of, each after its inputs."""
        wanted = set(names)
        for name in reversed(self.inputs):
            if name in wanted:
                wanted.update(self.inputs[name])
        return [name for name in self.inputs if name in wanted]

    def _frontier(self, sinks: Sequence[Sink]) -> tuple[str, ...]:
        ends = {sink.input.lower() for sink in sinks}
        if len(ends) == 1:
            return tuple(ends)
        needed = self.needed(sinks)
        inside = self._before(
            name for name in needed if name in self.sources or name in self._streamed
        )
        outside = [name for name in needed if name not in inside]
        frontier = {
            one
            for one in inside
            if one in ends or any(one in self.inputs[name] for name in outside)
        }
        for name in list(outside):
            # The stream goes on as long as nobody else reads what it has come to.
            before, *others = self.inputs[name]
            alone = not others and not any(
                before in self.inputs[one] for one in outside if one != name
            )
            if before in frontier and before not in ends and alone:
                frontier = (frontier - {before}) | {name}
                outside.remove(name)
        return tuple(name for name in needed if name in frontier)

    def _spread(self, inside: Sequence[str], frontier: Collection[str]) -> frozenset[str]:
        """Frames that several ways to the frontier share, shuffled to be computed once.

        Spark computes equal shuffles once. What keeps state is never equal, and neither are the two
        sides of a join, which Spark reads as two sources.
        """
        streamed = set(self._streamed)
        for name in inside:
            if streamed.intersection(self.inputs[name]):
                streamed.add(name)
        ways = {name: {name} & set(frontier) for name in inside}
        found = set()
        for name in reversed(inside):
            if len(ways[name]) > 1 and name not in streamed and name not in self._placed:
                found.add(name)
                ways[name] = {name}
            for one in self.inputs[name]:
                ways[one] |= ways[name]
        return frozenset(found)


def share(flow: Flow, sinks: Sequence[Sink]) -> list[tuple[Sink, ...]]:
    """Sinks that can have one query: with the same output mode, watermarks and sources.

    A sink of rows without state fits into any query that has a source of its own.
    """
    groups: dict[tuple[Any, ...], list[Sink]] = {}
    loose = []
    for sink in sinks:
        if isinstance(sink, TopicSink) and sink.rate is not None:
            groups[("rate", sink.name)] = [sink]  # others need not wait for it
        elif (state := flow.stateful(sink)) or sink.output_mode == "complete":
            key: tuple[Any, ...] = (sink.output_mode, flow.watermarks(sink))
            if sink.output_mode != "append":
                key = (*key, state)  # Spark takes one aggregation in such a query
            else:
                key = (*key, frozenset(flow.sources_of([sink])))
            groups.setdefault(key, []).append(sink)
        else:
            loose.append(sink)
    for sink in loose:
        mine = flow.sources_of([sink])
        fitting = (
            group
            for key, group in groups.items()
            if key[0] in ("append", "update") and mine & flow.sources_of(group)
        )
        group = next(fitting, None)
        if group is None:
            groups[("append", frozenset(mine), sink.name)] = [sink]
        else:
            group.append(sink)
    order = {sink.name: number for number, sink in enumerate(sinks)}
    shared = [tuple(sorted(group, key=lambda one: order[one.name])) for group in groups.values()]
    return sorted(shared, key=lambda group: order[group[0].name])


def mode_of(flow: Flow, sinks: Sequence[Sink]) -> OutputMode:
    """That of the sinks with state: to the others it makes no difference."""
    ruling = [sink for sink in sinks if flow.stateful(sink)] or sinks
    return ruling[0].output_mode


def read_twice(pipeline: Pipeline, sinks: Sequence[Sink]) -> set[str]:
    """Frames that several of these sinks, or of the steps before them, read."""
    readers = Counter(sink.input.lower() for sink in sinks)
    for step in reversed(pipeline.steps):
        if readers[step.name.lower()]:
            readers.update(name.lower() for name in step.inputs)
    return {name for name, count in readers.items() if count > 1}


def folder_of(sinks: Sequence[Sink], taken: Mapping[str, Any]) -> str:
    """Where a new query keeps its checkpoint: under the names of its sinks."""
    name = "+".join(sink.name for sink in sinks)[:_LONGEST_FOLDER]
    number, free = 2, name
    while free in taken:
        free, number = f"{name}+{number}", number + 1
    return free
