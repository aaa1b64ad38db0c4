"""In which line of a TOML file a setting stands; the parser does not say."""

from __future__ import annotations

import re
from typing import Final

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([\w.\"-]+)\s*\]")
_STEP: Final = re.compile(r"(?P<table>\w+)(?:\[(?P<index>\d+)\])?(?:\.(?P<key>\w+))?")


def line_of(text: str, place: str) -> int | None:
    """``mail.port``, ``routes[1].subject``, ``topic``; the header's line if there is no key."""
    found = _STEP.match(place)
    if found is None:
        return None
    table, key = found["table"], found["key"]
    wanted = int(found["index"] or 0)
    header: int | None = None
    current, seen = "", -1
    for number, line in enumerate(text.splitlines(), 1):
        opening = _HEADER.match(line)
        if opening is not None:
            current = opening[2].strip('"')
            seen += current == table
            if current == table and seen == wanted:
                header = number
        elif not current and _assigns(line, table):
            return number  # at the top, or as an inline table
        elif key and current == table and seen == wanted and _assigns(line, key):
            return number
    return header


def _assigns(line: str, key: str) -> bool:
    return re.match(rf'\s*"?{re.escape(key)}"?\s*[=.]', line) is not None
