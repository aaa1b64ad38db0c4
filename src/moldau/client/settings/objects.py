"""Options whose values are Python objects: a class, an instance, a function, or the name of one."""

from __future__ import annotations

from typing import Any

from moldau.config.option import Option
from moldau.config.types import ConfigType, parse_list


class ObjectOption(Option[Any]):
    """Takes an object as it is; text names one, see ``moldau.client.plugins``."""

    def read(self, value: object) -> Any:
        return self.parse(value) if isinstance(value, str) else value


class ObjectsOption(ObjectOption):
    """Takes several of those; a text is a list of names between commas."""

    def read(self, value: object) -> Any:
        value = super().read(value)
        return tuple(value) if isinstance(value, list | tuple) else (value,)


class ProgramOption(ObjectOption):
    """Takes something that only a program can give."""

    @property
    def kind(self) -> str:
        return "object"

    def parse(self, text: str) -> Any:
        raise self.refusal(text, "must be a Python object, not text")


def component(default: str | None, doc: str) -> Option[Any]:
    return ObjectOption(ConfigType.CLASS, str, default, doc)


def components(default: tuple[Any, ...], doc: str) -> Option[tuple[Any, ...]]:
    return ObjectsOption(ConfigType.LIST, parse_list, default, doc)


def python_object(doc: str) -> Option[Any]:
    return ProgramOption(ConfigType.CLASS, str, None, doc)
