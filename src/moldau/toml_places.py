"""On which line of a TOML file a key stands: ``tomllib`` does not tell.

The file has been parsed before, so that the scanner may take its syntax for granted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

Path = tuple[str | int, ...]

_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_STRING: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.DOTALL
)
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


def places(text: str) -> dict[Path, int]:
    """Lines, from 1, by path: ``("sources", 0, "topic")`` is a key of the first ``[[sources]]``."""
    return _Scanner(text).scan()


def line_of(path: Path, known: Mapping[Path, int]) -> int:
    """The line of a path, or of the nearest thing around it."""
    while path and path not in known:
        path = path[:-1]
    return known.get(path, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip_blank():
            if self._text.startswith("[[", self._at):
                table = self._header(2)
                number = self._counts.get(table, -1) + 1
                self._counts[table] = number
                self._found.setdefault(table, self._header_line)
                table = (*table, number)
                self._found[table] = self._header_line
            elif self._text[self._at] == "[":
                table = self._header(1)
                self._found[table] = self._header_line
            else:
                self._pair(table)
        return self._found

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _skip_blank(self) -> bool:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at < len(self._text)

    def _header(self, brackets: int) -> Path:
        self._header_line = self._line()
        self._at += brackets
        table = self._keys()
        self._at += brackets
        # [sources.options] belongs to the last of [[sources]].
        path: Path = ()
        for index, key in enumerate(table):
            path = (*path, key)
            if path in self._counts and index < len(table) - 1:
                path = (*path, self._counts[path])
        return path

    def _keys(self) -> Path:
        keys: list[str] = []
        while True:
            self._skip_blank()
            found = _KEY.match(self._text, self._at)
            if found is None:
                return tuple(keys)
            keys.append(found[0].strip("\"'"))
            self._at = found.end()
            self._skip_blank()
            if not self._text.startswith(".", self._at):
                return tuple(keys)
            self._at += 1

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = (*table, *self._keys())
        self._found[path] = line
        self._at += 1  # the equals sign
        self._skip_blank()
        self._value(path)

    def _value(self, path: Path) -> None:
        if (found := _STRING.match(self._text, self._at)) is not None:
            self._at = found.end()
        elif self._text[self._at] == "{":
            self._items("}", path)
        elif self._text[self._at] == "[":
            self._items("]", path)
        else:
            while self._at < len(self._text) and self._text[self._at] not in ",]}\n#":
                self._at += 1

    def _items(self, end: str, path: Path) -> None:
        """What is in an inline table or in an array."""
        self._at += 1
        index = 0
        while self._skip_blank() and self._text[self._at] != end:
            if self._text[self._at] == ",":
                self._at += 1
            elif end == "}":
                self._pair(path)
            else:
                self._found[*path, index] = self._line()
                self._value((*path, index))
                index += 1
        self._at += 1
