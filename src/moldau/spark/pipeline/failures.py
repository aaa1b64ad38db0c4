"""What went wrong, in one sentence: Spark's errors have the stacks of two languages in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from traceback import extract_tb
from typing import Final

from moldau.spark.pipeline.blame import kind_of, place_of
from moldau.spark.pipeline.problems import Kind
from moldau.spark.pipeline.spec import Part, Pipeline, PythonStep
from moldau.spark.pipeline.violations import told_violation

_TRACE: Final = "Traceback (most recent call last):"
_ERROR: Final = re.compile(r"^([A-Za-z_][\w.]*)(?:: ?(.*))?\Z", re.MULTILINE | re.DOTALL)
_AFTER: Final = re.compile(
    r"\s*(?:^\s*SQLSTATE:|SQLSTATE: \w{5}\s*$|^=== |^\s*at \w|^(?:Driver|JVM) stacktrace:).*",
    re.MULTILINE | re.DOTALL,
)
_PLAN: Final = re.compile(r"(?<=SQLSTATE: \w{5})(;? ?line \d+ pos \d+)?;\n.*", re.DOTALL)
"""Spark's plan of a query that it refuses, with the options of all sources in it."""
_JAVA: Final = re.compile(r"An error occurred while calling [^\n]*\n: ([\w.$]+)(?:: ([^\n]*))?")
_TASK: Final = re.compile(
    r"Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): (?:[\w.$]*?(\w+): )?"
)
"""What Spark says before the exception of a task that has failed for good."""
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]+: ")
_GONE: Final = re.compile(
    r"Python worker (?:exited unexpectedly|failed to connect back)"
    r"|java\.io\.(?:EOF|IO)Exception\b[^\n]*(?:\n\s+at [^\n]*)*?"
    r"\n\s+at org\.apache\.spark\.(?:api|sql\.execution)\.python\."
)
"""A Python process that Spark has started has ended, and not by an exception."""
_SOURCES: Final = re.compile(
    r"There are \[(\d+)\] sources in the checkpoint offsets and now there are \[(\d+)\]"
)


def reason(text: str) -> str:
    """The message of the exception at the end of a Python traceback, or else Spark's own."""
    text = _PLAN.sub(r"\1", text)
    _, python, trace = text.rpartition(_TRACE)
    if not python:
        if (java := _java_reason(text)) is not None:
            return java
        return _AFTER.sub("", text).strip()
    # Frames are indented, the exception is not.
    lines = _AFTER.sub("", trace).strip("\n").split("\n")
    first = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), 0)
    found = _ERROR.match("\n".join(lines[first:]).strip())
    if found is None:
        return _AFTER.sub("", text).strip()
    name, message = found[1], (found[2] or "").strip()
    if name.startswith("moldau.") and message:
        return _CODE.sub("", message, count=1) if _CODE.match(message) else message
    if (java := _java_reason(message)) is not None:
        return java
    return f"{name.rpartition('.')[2]}: {message}".rstrip(": ")


def _java_reason(text: str) -> str | None:
    """Of an exception of Java's that py4j tells."""
    found = _JAVA.match(text)
    if found is None:
        return None
    said = (found[2] or found[1].rpartition(".")[2]).strip()
    return _TASK.sub(lambda task: f"{task[1]}: " if task[1] else "", said, count=1)


class PipelineFailedError(RuntimeError):
    """A pipeline ended with an error; the text is what Spark says, with the line of the file."""

    def __init__(self, message: str, kind: Kind = "wrong") -> None:
        super().__init__(message)
        self.kind = kind


def failure(pipeline: Pipeline, part: Part, what: str, error: BaseException) -> PipelineFailedError:
    """``what`` is how the part is called, such as ``sink files``."""
    text = str(error)
    if (sentence := told_violation(pipeline, text)) is not None:
        return PipelineFailedError(sentence)
    if (found := _SOURCES.search(text)) is not None:
        return PipelineFailedError(_other_sources(pipeline, found[1], found[2]))
    if any(_GONE.search(one.rpartition(_TRACE)[2]) for one in (text, *_java_causes(error))):
        line = pipeline.lines.of(part.place)
        return PipelineFailedError(
            f"{pipeline.file}:{line}: {what}: a Python process of Spark's has ended in the middle "
            "of its work: somebody killed it, or it had no memory left",
            "lost",
        )
    where, said = place_of(pipeline, part, reason(text))
    return PipelineFailedError(f"{where}: {what}: {said}", kind_of(text))


def _java_causes(error: BaseException) -> Iterator[str]:
    """Stack traces of Java's exceptions behind PySpark's, of which it tells the messages only."""
    cause = getattr(error, "_cause", None)
    while cause is not None:
        yield str(getattr(cause, "_stackTrace", ""))
        cause = getattr(cause, "_cause", None)


def _other_sources(pipeline: Pipeline, before: str, now: str) -> str:
    line = pipeline.lines.of(("spark", "checkpoint"))
    return (
        f"{pipeline.file}:{line}: the checkpoint {pipeline.checkpoint} was begun with {before} "
        f"sources, and now there are {now} (idle of [trigger] is one of them): give this pipeline "
        "another checkpoint, with which it reads everything anew"
    )


def own_failure(pipeline: Pipeline, part: Part, what: str, error: Exception) -> PipelineFailedError:
    """Of what a part runs without Spark: a function in Python, a query of a database."""
    place = pipeline.declared(part, "python", "query", "table")
    key = f", {place[-1]}" if place != part.place else ""
    line = pipeline.lines.of(place)
    said = str(error).strip().split("\n", 1)[0]
    if not said.startswith("("):  # SQLAlchemy has the name there
        said = f"{type(error).__name__}: {said}".rstrip(": ")
    at = _line_of_step(part, error) if isinstance(part, PythonStep) else ""
    return PipelineFailedError(f"{pipeline.file}:{line}: {what}{key}: {said}{at}")


def _line_of_step(step: PythonStep, error: Exception) -> str:
    """The innermost line of the step's own file."""
    name = Path(step.function.rpartition(":")[0]).name
    lines = [
        one.lineno for one in extract_tb(error.__traceback__) if Path(one.filename).name == name
    ]
    return f" ({name}:{lines[-1]})" if lines else ""
