"""Which steps work on each row by itself, so that a batch can be computed as well as a stream.

Spark's own plan of a step says it. Whatever is not known here stays in the stream, where it means
what it always meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from moldau.spark.pipeline.spec import Pipeline, QuarantineStep, Step

_ROW_WISE: Final = frozenset(
    (
        "Project",
        "Filter",
        "SubqueryAlias",
        "View",
        "Generate",
        "MapInPandas",
        "MapInArrow",
        "PythonMapInArrow",
        "ResolvedHint",
        "CollectMetrics",
        "WithCTE",
        "CTERelationDef",
        "CTERelationRef",
    )
)
_FROM_LEFT: Final = frozenset(("INNER", "CROSS", "LEFT OUTER", "LEFT SEMI", "LEFT ANTI"))
_FROM_RIGHT: Final = frozenset(("INNER", "CROSS", "RIGHT OUTER"))
_CLOCK: Final = re.compile(r"\b(current_timestamp|current_date|current_time|localtimestamp|now)\(")
"""A stream has the time of its batch, whenever that runs."""
_ALL_FIELDS: Final = 100_000


def streamed_steps(pipeline: Pipeline, frames: Mapping[str, DataFrame]) -> set[str]:
    """The names, in lower case, of steps of streams that are not computed row by row."""
    return {
        step.name.lower()
        for step in pipeline.steps
        if frames[step.name.lower()].isStreaming and not _is_row_wise(step, frames)
    }


def _is_row_wise(step: Step, frames: Mapping[str, DataFrame]) -> bool:
    if isinstance(step, QuarantineStep):
        return False  # it is made with the frames that were judged
    inputs = {name.lower(): _plan(frames[name.lower()]) for name in step.inputs}
    return _all_row_wise(_plan(frames[step.name.lower()]), inputs)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _all_row_wise(node: Any, inputs: Mapping[str, Any]) -> bool:
    """Of a plan down to where the inputs' begin, and to frames that are no streams."""
    if not node.isStreaming() or _is_input(node, inputs):
        return True
    return _fits(node) and all(_all_row_wise(child, inputs) for child in _children(node))


def _is_input(node: Any, inputs: Mapping[str, Any]) -> bool:
    if node.nodeName() == "View":
        return node.desc().identifier().table().lower() in inputs
    return any(node.equals(plan) for plan in inputs.values())


def _fits(node: Any) -> bool:
    if not node.subqueries().isEmpty() or _CLOCK.search(node.simpleString(_ALL_FIELDS)):
        return False
    match node.nodeName():
        case "Join":
            left, right = _children(node)
            kind = node.joinType().sql()
            if left.isStreaming() and right.isStreaming():
                return False
            return kind in (_FROM_LEFT if left.isStreaming() else _FROM_RIGHT)
        case "Union":
            return all(child.isStreaming() for child in _children(node))
        case name:
            return name in _ROW_WISE


def _children(node: Any) -> Sequence[Any]:
    return list(_each(node.children()))


def _each(found: Any) -> Iterator[Any]:
    for index in range(found.size()):
        yield found.apply(index)
