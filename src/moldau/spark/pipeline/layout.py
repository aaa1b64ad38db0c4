"""The queries of a pipeline and their checkpoints: what was begun together goes on together.

Sinks that were begun apart, each with a folder of its own, stay apart; a sink that is new beside
others begins with a query of its own. Nothing is read again, and nothing skipped, because the file
was changed: what cannot go on is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moldau.spark.pipeline.checkpoint import KnownQuery, Queries
from moldau.spark.pipeline.queries import Flow, StreamPlan, folder_of, mode_of, share
from moldau.spark.pipeline.spec import OutputMode, Pipeline, Sink


@dataclass(frozen=True)
class Query:
    """One streaming query."""

    sinks: tuple[Sink, ...]
    folder: str
    """Of its checkpoint, in the pipeline's."""
    output_mode: OutputMode
    plan: StreamPlan
    shared: bool = False
    """Whether there are several sinks, or were when it began."""
    without: KnownQuery | None = None
    """What is to be known of it when it has gone on without sinks that it had."""

    @property
    def title(self) -> str:
        """What messages call it."""
        names = ", ".join(sink.name for sink in self.sinks)
        return f"sink {names}" if len(self.sinks) == 1 else f"sinks {names}"


class LayoutError(ValueError):
    """The checkpoint is of queries that this pipeline does not have any more."""


def lay_out(
    pipeline: Pipeline, flow: Flow, known: Queries, has_begun: Callable[[str], bool]
) -> tuple[list[Query], Queries]:
    """The queries to run, and what is to be known of them before they start.

    ``has_begun``: whether there is a checkpoint in a folder.
    """
    left = [sink for sink in pipeline.sinks if flow.is_stream(sink)]
    queries: list[Query] = []
    remembered: dict[str, KnownQuery] = {}
    for folder, one in known.items():
        mine = [sink for sink in left if sink.name in one.sinks]
        left = [sink for sink in left if sink not in mine]
        if has_begun(folder):
            remembered[folder] = one
            _refuse_returned(folder, one, left)
            if mine:
                queries.append(_go_on(pipeline, flow, folder, one, mine))
        else:
            left += mine  # it never had a batch
    apart = [sink for sink in left if pipeline.separate or has_begun(sink.name)]
    together = [sink for sink in left if sink not in apart]
    for group in [*((sink,) for sink in apart), *share(flow, together)]:
        folder = folder_of(group, remembered)
        queries.append(_query(flow, group, folder))
        if len(group) > 1:
            names = tuple(sink.name for sink in group)
            remembered[folder] = KnownQuery(names, queries[-1].plan.frontier)
    order = {sink.name: number for number, sink in enumerate(pipeline.sinks)}
    return sorted(queries, key=lambda query: order[query.sinks[0].name]), remembered


def _query(flow: Flow, sinks: Sequence[Sink], folder: str) -> Query:
    plan = flow.plan(sinks)
    return Query(tuple(sinks), folder, mode_of(flow, sinks), plan, shared=len(sinks) > 1)


def _go_on(
    pipeline: Pipeline, flow: Flow, folder: str, known: KnownQuery, sinks: Sequence[Sink]
) -> Query:
    names = ", ".join(known.sinks)
    if pipeline.separate:
        raise LayoutError(
            f'queries = "separate" comes too late: {folder} is the checkpoint of one query for '
            f"the sinks {names}; {_advice(pipeline)}"
        )
    try:
        # State is found by its place in the query, wherever the steps are in the file now.
        plan = flow.plan(sinks, known.frontier)
        fitting = len(share(flow, sinks)) == 1
    except ValueError:
        fitting = False
    if not fitting:
        raise LayoutError(
            f"{folder} is the checkpoint of one query for the sinks {names}, which streams "
            f"{', '.join(known.frontier)}; the file was changed, and now that cannot be. Change it "
            f"back, or {_advice(pipeline)}"
        )
    left = tuple(sink.name for sink in sinks)
    gone = tuple(name for name in known.sinks if name not in left)
    without = KnownQuery(left, known.frontier, (*known.left, *gone)) if gone else None
    return Query(tuple(sinks), folder, mode_of(flow, sinks), plan, shared=True, without=without)


def _refuse_returned(folder: str, known: KnownQuery, sinks: Sequence[Sink]) -> None:
    for sink in sinks:
        if sink.name in known.left:
            raise LayoutError(
                f"sink {sink.name} was taken out of the query of {', '.join(known.sinks)} "
                f"({folder}), which has gone on without it: give the sink another name, and it "
                "begins anew, with a query of its own"
            )


def _advice(pipeline: Pipeline) -> str:
    return (
        f'give the pipeline another checkpoint ([spark] checkpoint = "{pipeline.checkpoint}-2"), '
        "with which it reads everything anew"
    )
