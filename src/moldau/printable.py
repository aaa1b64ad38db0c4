"""What strangers wrote, as a log line or a terminal can show it: one line, and not for ever.

Group ids, client ids, host names, settings, error messages of the other side: whoever sends them
may put line breaks into them, to forge lines of a log, or escape sequences, which terminals obey.
Everything that is logged goes through :class:`LineFormatter`, everything that commands print
through ``moldau.cli.output``, and both go through :func:`printable`.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Final

LONGEST_LINE: Final = 2000
"""Characters of a log line or of a sentence; of longer ones the middle is left out."""

_NOT_IN_JSON: Final = re.compile(r"[^\x20-\x7e\n]")
"""Beyond ASCII terminals have control characters, too; those of ASCII are escaped in any JSON."""


def printable(text: str, limit: int | None = None) -> str:
    r"""Returns the text with everything that is not a visible character written as in Python's
    strings: ``\n``, ``\x1b``, ``\u202e``.

    Of a text with more characters than ``limit`` its beginning and its end remain.
    """
    if limit is not None and len(text) > limit:
        # Before escaping: whoever sends megabytes does not have them looked at.
        tail = limit // 4
        left_out = len(text) - limit
        text = f"{text[: limit - tail]}…({left_out} more)…{text[len(text) - tail :]}"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def printable_lines(text: str) -> str:
    """The same for a text whose line breaks and tabs are meant."""
    return "\n".join(
        "\t".join(printable(field) for field in line.split("\t")) for line in text.split("\n")
    )


def printable_json(document: bytes) -> str:
    """JSON in which the same characters stand as JSON writes them: it says what it said."""
    return _NOT_IN_JSON.sub(_json_escape, document.decode())


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


class LineFormatter(logging.Formatter):
    """A line for each thing that is logged; the lines of a traceback are indented.

    So whatever begins a line with a time was logged, and nobody's name or message can look so.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message, LONGEST_LINE)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        line, *traceback = super().format(record).split("\n")
        return "\n".join([line, *(f"    {printable(other, LONGEST_LINE)}" for other in traceback)])


def log_to_stderr(level: str) -> None:
    """What a program of ours does with everything that is logged in it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])
