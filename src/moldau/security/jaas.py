"""The value of ``sasl.jaas.config``: one login module of Java's JAAS with its options.

org.apache.kafka.common.security.plain.PlainLoginModule required
    username="alice" password="secret";
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.config.option import ConfigError

_FLAGS: Final = frozenset(("required", "requisite", "sufficient", "optional"))
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<text>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
    | (?P<mark>[=;])
    | (?P<word>[^\s=;"'/]+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, repr=False)
class LoginModule:
    """Without a ``repr``: options are passwords."""

    module: str
    """The Java class."""
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """What it says; errors never repeat it, since there is a password in it."""
    tokens = list(_tokens(text))
    if not tokens or tokens[-1] != ("mark", ";"):
        raise _wrong("does not end with a semicolon")
    if ("mark", ";") in tokens[:-1]:
        raise _wrong("has several login modules; a client has one")
    if len(tokens) < 3 or tokens[0][0] != "word":
        raise _wrong("does not begin with a login module and a flag such as required")
    if tokens[1][0] != "word" or tokens[1][1].lower() not in _FLAGS:
        raise _wrong("has no flag such as required behind the login module")
    return LoginModule(tokens[0][1], _options(tokens[2:-1]))


def _options(tokens: list[tuple[str, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        three = tokens[start : start + 3]
        if len(three) < 3 or three[0][0] != "word" or three[1] != ("mark", "="):
            raise _wrong('has options that do not look like name="value"')
        kind, value = three[2]
        if kind == "mark":
            raise _wrong(f"has no value for {three[0][1]}")
        options[three[0][1]] = value
    return options


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong("cannot be read: a quotation mark is missing")
        at = match.end()
        kind = match.lastgroup
        if kind == "text":
            yield kind, re.sub(r"\\(.)", _unescape, match[0][1:-1], flags=re.DOTALL)
        elif kind is not None:
            yield kind, match[0]


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])


def _wrong(how: str) -> ConfigError:
    return ConfigError(
        f"sasl.jaas.config {how}; it looks like "
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="…" '
        'password="…";'
    )
