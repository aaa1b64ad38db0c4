"""``${name}`` in the strings of a pipeline's file: parameters, and the environment for secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from moldau.spark.pipeline.problems import Problems, did_you_mean
from moldau.toml_places import Path

_REFERENCE: Final = re.compile(r"\$\{([^}]*)\}")
_TOPICS: Final = frozenset(("topic", "topics", "pattern", "topic_from"))
"""What sources and sinks that need brokers have."""
Value = str | int | float | bool


def parameters(declared: object, given: Mapping[str, str], problems: Problems) -> dict[str, Value]:
    """The values of ``[parameters]``, some of them from the command line."""
    if not isinstance(declared, dict):
        problems.add(("parameters",), "parameters must be a table: [parameters]")
        return {}
    values: dict[str, Value] = {}
    for name, value in declared.items():
        if isinstance(value, (str, int, float, bool)):
            values[name] = value
        else:
            problems.add(
                ("parameters", name), f"parameter {name} must be a text, a number or a boolean"
            )
    for name, text in given.items():
        if name not in declared:
            hint = did_you_mean(name, declared)
            problems.add(("parameters",), f"there is no parameter {name}: {hint}")
        elif name in values:
            _override(values, name, text, problems)
    return values


def _override(values: dict[str, Value], name: str, text: str, problems: Problems) -> None:
    kind = type(values[name])
    if kind is bool:
        if text.lower() not in ("true", "false"):
            problems.add(("parameters", name), f"parameter {name} is true or false, not {text!r}")
        values[name] = text.lower() == "true"
        return
    try:
        values[name] = kind(text)
    except ValueError:
        problems.add(("parameters", name), f"parameter {name} is a number, and {text!r} is none")


def substitute(
    value: Any, values: Mapping[str, Value], environment: Mapping[str, str], problems: Problems
) -> Any:
    """The document with all references replaced; one that is all of a string keeps its type."""
    return _Substitution(values, environment, problems).apply(value, ())


class _Substitution:
    def __init__(
        self, values: Mapping[str, Value], environment: Mapping[str, str], problems: Problems
    ) -> None:
        self._values = values
        self._environment = environment
        self._problems = problems

    def apply(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.apply(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.apply(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        whole = _REFERENCE.fullmatch(value)
        if whole is not None:
            return self._look_up(whole[1], path)
        return _REFERENCE.sub(lambda found: _text(self._look_up(found[1], path)), value)

    def _look_up(self, name: str, path: Path) -> Value:
        if name.startswith("env:"):
            variable = name.removeprefix("env:")
            if variable not in self._environment:
                self._problems.add(path, f"the environment has no variable {variable}", name)
            return self._environment.get(variable, "")
        if name not in self._values:
            hint = did_you_mean(name, self._values)
            self._problems.add(path, f"there is no parameter {name}: {hint}", f"${{{name}}}")
            return ""
        return self._values[name]


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_brokers(document: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Topics whose brokers the file does not name are where commands look for them, too."""
    address = environment.get("MOLDAU_BOOTSTRAP")
    if not address:
        return document
    found = dict(document)
    for group in ("sources", "sinks"):
        if isinstance(tables := found.get(group), list):
            found[group] = [
                {**table, "bootstrap_servers": address} if _wants_brokers(table) else table
                for table in tables
            ]
    return found


def _wants_brokers(table: Any) -> bool:
    if not isinstance(table, dict) or not _TOPICS.intersection(table):
        return False
    options = table.get("options")
    named = isinstance(options, dict) and "kafka.bootstrap.servers" in options
    return not named and "bootstrap_servers" not in table
