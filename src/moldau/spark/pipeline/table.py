"""Reading one table of the file: every complaint names the key and says what to write instead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from moldau.durations import parse_duration_ms
from moldau.spark.addresses import HINT, is_unclear
from moldau.spark.pipeline.problems import Problems, did_you_mean
from moldau.toml_places import Path


class Table:
    """A table and where it is; ``what`` is how problems call it, such as ``[[sources]] events``."""

    def __init__(self, values: Any, path: Path, what: str, problems: Problems) -> None:
        self.path = path
        self.what = what
        self.problems = problems
        if not isinstance(values, dict):
            problems.add(path, f"{what} must be a table")
            values = {}
        self.values: Mapping[str, Any] = values

    def __contains__(self, key: str | None) -> bool:
        return key in self.values

    def complain(self, key: str | None, message: str, word: str | None = None) -> None:
        self.problems.add(self.path if key is None else (*self.path, key), message, word)

    def allow(self, keys: Iterable[str]) -> None:
        """All keys that there may be; with the others something is wrong."""
        known = set(keys)
        for key in self.values:
            if key not in known:
                hint = did_you_mean(key, known)
                self.complain(key, f"{self.what} has no key {key}: {hint}")

    def require(self, key: str, example: str) -> None:
        if key not in self.values:
            self.complain(None, f"{self.what} needs {key}, such as {key} = {example}")

    def one_of(self, keys: Iterable[str], example: str) -> str | None:
        """Which of the keys that exclude each other is given."""
        names = list(keys)
        given = [key for key in names if key in self.values]
        if len(given) == 1:
            return given[0]
        if given:
            self.complain(given[1], f"{self.what} has both {given[0]} and {given[1]}: keep one")
        else:
            self.complain(None, f"{self.what} needs one of {', '.join(names)}, such as {example}")
        return None

    def text(self, key: str, default: str = "") -> str:
        return self.optional_text(key) or default

    def optional_text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self._wrong(key, "a text")
            return None
        if not str(value).strip():
            self.complain(key, f"{key} of {self.what} must not be empty")
            return None
        return str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A text, or a list of them."""
        value = self.values.get(key, [])
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and item.strip() for item in items):
            self._wrong(key, "a text or a list of texts")
            return ()
        return tuple(items)

    def boolean(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key, default)
        if isinstance(value, bool):
            return value
        self._wrong(key, "true or false")
        return default

    def number(self, key: str) -> float | None:
        """A positive one."""
        value = self.values.get(key)
        if value is None:
            return None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value < inf:
            self._wrong(key, "a positive number")
            return None
        return float(value)

    def duration(self, key: str) -> int | None:
        """Milliseconds."""
        text = self.optional_text(key)
        if text is None:
            return None
        try:
            found = parse_duration_ms(text)
        except ValueError as error:
            self.complain(key, f"{key} of {self.what}: {error}")
            return None
        if found == 0:
            self._wrong(key, "more than nothing")
            return None
        return found

    def word(self, key: str, words: Iterable[str], default: str) -> str:
        value = self.text(key, default)
        allowed = list(words)
        if value in allowed:
            return value
        self.complain(key, f"{key} of {self.what} is {value!r}: {did_you_mean(value, allowed)}")
        return default

    def texts_by_name(self, key: str) -> dict[str, str]:
        """A table of settings, as Spark takes them."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self._wrong(key, 'a table, such as { name = "value" }')
            return {}
        return {name: as_option(item) for name, item in flat(value).items()}

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self._wrong(key, "a table")
            return {}
        return value

    def table(self, key: str) -> Table:
        return Table(self.values[key], (*self.path, key), f"{key} of {self.what}", self.problems)

    def address(self, key: str) -> str:
        """Of a database. It is never shown: it may have a password in it."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str) or not value.strip():
            self.complain(key, f"{key} of {self.what} must be a text that is not empty")
            return ""
        if is_unclear(value):
            self.complain(key, f"{key} of {self.what} cannot be read: {HINT}")
        elif "://" not in value:
            self.complain(
                key,
                f"{key} of {self.what} must be an address, such as sqlite:///results.db or "
                "postgresql+psycopg://user@host/name",
            )
        return value

    def _wrong(self, key: str, wanted: str) -> None:
        self.complain(key, f"{key} of {self.what} must be {wanted}, not {self.values.get(key)!r}")


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{spark: {sql: 1}}`` is what TOML makes of ``spark.sql = 1``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found


def as_option(value: Any) -> str:
    """As Spark's options have it: texts as they are, the rest as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)  # dates
