"""Which steps work on each row by itself, so that a batch can be computed as well as a stream.

Spark's own plan of a step says it. Whatever is not known here stays in the stream, where it means
what it always meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from moldau.spark.pipeline.spec import Expectation, Pipeline, QuarantineStep, Step

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
_CLOCK: Final = re.compile(
    r"\b(current_timestamp|current_date|current_time|localtimestamp|now)\b(?![#.])", re.IGNORECASE
)
"""A stream has the time of its batch, whenever that runs. SQL may leave the brackets out."""
_PLACE: Final = re.compile(
    r"\b(input_file_name|input_file_block_start|input_file_block_length"
    r"|spark_partition_id|monotonically_increasing_id)\(",
    re.IGNORECASE,
)
"""What is known of a row only where it is read: its file, its task."""
_ALL_FIELDS: Final = 100_000


def streamed_steps(pipeline: Pipeline, frames: Mapping[str, DataFrame]) -> set[str]:
    """The names, in lower case, of steps of streams that are not computed row by row."""
    return {
        step.name.lower()
        for step in pipeline.steps
        if frames[step.name.lower()].isStreaming and not _is_row_wise(step, pipeline, frames)
    }


def placed_parts(pipeline: Pipeline, frames: Mapping[str, DataFrame]) -> set[str]:
    """The names, in lower case, of sources and steps of streams that ask where rows are read."""
    ruled = {part.name.lower() for part in pipeline.parts if _have(part.expect, _PLACE)}
    return ruled | {
        step.name.lower()
        for step in pipeline.steps
        if any(_PLACE.search(_text(node)) for node in _own_nodes(step, frames))
    }


def _is_row_wise(step: Step, pipeline: Pipeline, frames: Mapping[str, DataFrame]) -> bool:
    if isinstance(step, QuarantineStep):
        # The rules of what it takes rows from are applied to batches, then.
        rules = [
            rule for part in pipeline.parts if part.name in step.inputs for rule in part.expect
        ]
        flowing = all(frames[name.lower()].isStreaming for name in step.inputs)
        return flowing and not _have(rules, _CLOCK) and not _have(rules, _PLACE)
    return all(map(_fits, _own_nodes(step, frames)))


def _have(rules: Iterable[Expectation], pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(rule.check) for rule in rules)


def _own_nodes(step: Step, frames: Mapping[str, DataFrame]) -> Iterator[Any]:
    """Of a step's plan down to where its inputs' begin, and to frames that are no streams."""
    inputs = {name.lower(): _plan(frames[name.lower()]) for name in step.inputs}
    left = [_plan(frames[step.name.lower()])]
    while left:
        node = left.pop()
        if node.isStreaming() and not _is_input(node, inputs):
            yield node
            left += _children(node)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _text(node: Any) -> str:
    return str(node.simpleString(_ALL_FIELDS))


def _is_input(node: Any, inputs: Mapping[str, Any]) -> bool:
    if node.nodeName() == "View":
        return node.desc().identifier().table().lower() in inputs
    return any(node.equals(plan) for plan in inputs.values())


def _fits(node: Any) -> bool:
    text = _text(node)
    if not node.subqueries().isEmpty() or _CLOCK.search(text) or _PLACE.search(text):
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
