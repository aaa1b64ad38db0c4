"""A row that ends the batch, in a sentence: Spark passes on nothing but a text."""

from __future__ import annotations

import json
from typing import Final

from moldau.spark.pipeline.spec import Pipeline

MARK: Final = "moldau-expectation:"
SAMPLE: Final = 300
"""Characters of a row that are shown."""


def violation(pipeline: Pipeline, part: str, rule: str, row: str) -> str:
    """With the line of the rule and the row as JSON, or its beginning."""
    step = next(one for one in pipeline.parts if one.name == part)
    found = next(one for one in step.expect if one.name == rule)
    line = pipeline.lines.of((*found.place, "check"))
    kind = "source" if step in pipeline.sources else "step"
    shown = f"{row}…" if len(row) == SAMPLE else row
    return (
        f"{pipeline.file}:{line}: {kind} {part}: a row fails rule {rule} ({found.check}): {shown}"
    )


def told_violation(pipeline: Pipeline, text: str) -> str | None:
    """The sentence, if this is what Spark says of such a row."""
    _, mark, report = text.partition(MARK)
    if not mark:
        return None
    (part, rule), end = json.JSONDecoder().raw_decode(report)
    row = report[end:].lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(row)
    except ValueError:  # the beginning of a longer one
        end = SAMPLE
    return violation(pipeline, part, rule, row[:end])
