"""The tables that a query reads, roughly: enough to find a name that is nowhere declared."""

from __future__ import annotations

import re
from typing import Final

_NOISE: Final = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL
)
_TOKEN: Final = re.compile(r"`[^`]+`|[^\W\d]\w*|[^\s]")
_WORD: Final = re.compile(r"`[^`]+`|[^\W\d]\w*")
_NOT_NAMES: Final = frozenset(("lateral", "select", "values", "table", "stream", "with", "unnest"))
_FUNCTIONS_WITH_FROM: Final = frozenset(("extract", "trim", "substring", "substr", "overlay"))


def tables_of(sql: str) -> list[str]:
    """Names after FROM and JOIN that the query does not define itself, each once, in order.

    Names with dots belong to a catalog of Spark's, and functions make their own rows.
    """
    tokens = _TOKEN.findall(_NOISE.sub(" '' ", sql))
    own = _defined(tokens)
    names = _Reader(tokens).names()
    return list(dict.fromkeys(name for name in names if name.lower() not in own))


def _defined(tokens: list[str]) -> set[str]:
    """The names of common table expressions: ``name AS (``, maybe with columns between."""
    own: set[str] = set()
    for index, token in enumerate(tokens[:-2]):
        follows = index + 1
        if not _WORD.fullmatch(token):
            continue
        if tokens[follows] == "(" and ")" in tokens[follows:]:
            follows = tokens.index(")", follows) + 1
        if [one.lower() for one in tokens[follows : follows + 2]] == ["as", "("]:
            own.add(token.strip("`").lower())
    return own


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._brackets: list[str] = []
        """The word before each open bracket."""

    def names(self) -> list[str]:
        found: list[str] = []
        for index, word in enumerate(self._tokens):
            before = self._tokens[index - 1].lower() if index else ""
            if word == "(":
                self._brackets.append(before)
            elif word == ")" and self._brackets:
                self._brackets.pop()
            elif word.lower() in ("from", "join") and self._names_follow(before):
                found += self._list(index + 1)
        return found

    def _names_follow(self, before: str) -> bool:
        inside = self._brackets[-1] if self._brackets else ""
        return before != "distinct" and inside not in _FUNCTIONS_WITH_FROM

    def _list(self, index: int) -> list[str]:
        """One name, or more with commas between; aliases are passed over."""
        found: list[str] = []
        while True:
            token = self._at(index)
            if not _WORD.fullmatch(token) or token.lower() in _NOT_NAMES:
                return found
            if self._at(index + 1) not in (".", "("):
                found.append(token.strip("`"))
            index += 1
            while _WORD.fullmatch(self._at(index)) and self._at(index).lower() not in _CLAUSES:
                index += 1
            if self._at(index) != ",":
                return found
            index += 1

    def _at(self, index: int) -> str:
        return self._tokens[index] if index < len(self._tokens) else ""


_CLAUSES: Final = frozenset(
    (
        *("where", "group", "order", "having", "limit", "on", "using", "window", "sort", "cluster"),
        *("join", "inner", "left", "right", "full", "cross", "natural", "semi", "anti", "lateral"),
        *("union", "intersect", "except", "distribute", "tablesample", "pivot"),
    )
)
