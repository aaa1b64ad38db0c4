"""Java's ``.properties`` format, the format of ``server.properties``.

Written out rather than taken from a library because the rules are few and the established packages
either drop escapes or keep comments as keys. The rules are those of ``java.util.Properties.load``:
``#`` and ``!`` begin comments, a backslash at the end of a line continues it, a key ends at the
first ``=``, ``:`` or blank, backslashes escape, and the last of several equal keys wins.
"""

from __future__ import annotations

from typing import Final

from moldau.config.option import ConfigError

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a properties file."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key, number)] = _unescape(value, number)
    return properties


def decode_properties(data: bytes) -> str:
    """The text of a properties file: UTF-8, or Latin-1 as older Java wrote it."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their continuations joined, without comments and blanks, and their numbers."""
    logical: list[tuple[int, str]] = []
    pending = ""
    start = 0
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, raw in enumerate(natural, 1):
        line = raw.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            start = number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
            continue
        logical.append((start, pending + line))
        pending = ""
    if pending:  # the file ends inside a continuation
        logical.append((start, pending))
    return logical


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            if character != "\\":
                parts.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            parts.append(_code_unit(text[position : position + 4], line_number))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    joined = "".join(parts)
    # Java writes characters beyond the basic plane as two escapes, a surrogate pair.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _code_unit(digits: str, line_number: int) -> str:
    if len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return chr(int(digits, 16))
    raise ConfigError(f"Line {line_number}: \\u must be followed by four hexadecimal digits")
