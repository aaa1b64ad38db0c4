"""One ``Setting`` per option of a client: Kafka's name, its type, default, allowed values, meaning.

A setting is declared once, as an attribute of the class of settings it belongs to::

    class ProducerSettings(CommonSettings):
        linger_ms = integer(5, "How long a batch waits for more records.", at_least=0)

The attribute's name is Kafka's with underscores for dots, and has the parsed value's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, Self, TypeVar, overload

from moldau.config.option import (
    ConfigError,
    format_value,
    parse_boolean,
    parse_double,
    parse_int,
    parse_list,
    parse_long,
)
from moldau.config.validators import Between, OneOf, SomeOf, Validator

T = TypeVar("T")

REQUIRED: Final = object()
"""The default of a setting that has none."""

HIDDEN: Final = "[hidden]"
"""What Kafka shows instead of a password."""


class Setting(Generic[T]):
    """A descriptor: on the class it is the setting, on an instance its value."""

    def __init__(
        self,
        kind: str,
        convert: Callable[[str], Any],
        default: object,
        doc: str,
        *,
        allowed: Validator | None = None,
        takes_objects: bool = False,
        secret: bool = False,
    ) -> None:
        self.kind = kind
        self.convert = convert
        self.default = default
        self.doc = doc
        self.allowed = allowed
        self.takes_objects = takes_objects
        """Whether a Python object (a class, a function) may be the value as it is."""
        self.secret = secret
        """Whether nobody may see the value: not in a ``repr``, not in an error."""
        self.name = ""
        self.attribute = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name
        self.name = name.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        # Instances hold their values in their own dictionaries, which Python asks first.
        if instance is None:
            return self
        raise AttributeError(self.attribute)

    def __repr__(self) -> str:
        return f"Setting({self.name!r})"

    @property
    def optional(self) -> bool:
        return self.default is None

    def read(self, value: object) -> T:
        """The value that somebody gave, text or of its own type, checked."""
        if value is None and self.optional:
            parsed: Any = None
        elif self.takes_objects and not isinstance(value, str):
            parsed = self.convert_objects(value)
        else:
            parsed = self._parse(self._as_text(value))
        result: T = parsed
        return result

    def convert_objects(self, value: object) -> object:
        if self.kind != "list":
            return value
        return tuple(value) if isinstance(value, list | tuple) else (value,)

    def refusal(self, value: object, reason: str) -> ConfigError:
        return ConfigError(f"Invalid value {self.show(value)} for {self.name}: {reason}")

    def show(self, value: object) -> str:
        """The value for people to read."""
        return HIDDEN if self.secret and value is not None else repr(value)

    def _as_text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return format_value(value)
        if self.kind == "list" and isinstance(value, list | tuple | set | frozenset):
            if all(isinstance(item, str) for item in value):
                return ",".join(value)
            raise self.refusal(value, "must be a list of strings")
        raise self.refusal(value, f"must be a {self.kind}, not {type(value).__name__}")

    def _parse(self, text: str) -> object:
        try:
            value = self.convert(text.strip())
        except ValueError as error:
            raise self.refusal(text, str(error)) from None
        reason = None if self.allowed is None else self.allowed.reason(value)
        if reason is not None:
            raise self.refusal(text, reason)
        return value


def _between(at_least: float | None, at_most: float | None) -> Validator | None:
    return None if at_least is None and at_most is None else Between(at_least, at_most)


def boolean(default: bool, doc: str) -> Setting[bool]:
    return Setting("boolean", parse_boolean, default, doc, allowed=None)


def integer(
    default: int, doc: str, *, at_least: int | None = None, at_most: int | None = None
) -> Setting[int]:
    return Setting("int", parse_int, default, doc, allowed=_between(at_least, at_most))


def optional_integer(doc: str, *, at_least: int | None = None) -> Setting[int | None]:
    return Setting("int", parse_int, None, doc, allowed=_between(at_least, None))


def long(
    default: int, doc: str, *, at_least: int | None = None, at_most: int | None = None
) -> Setting[int]:
    return Setting("long", parse_long, default, doc, allowed=_between(at_least, at_most))


def double(default: float, doc: str, *, at_least: float | None = None) -> Setting[float]:
    return Setting("double", parse_double, default, doc, allowed=_between(at_least, None))


def string(default: str, doc: str) -> Setting[str]:
    return Setting("string", str, default, doc)


def optional_string(doc: str) -> Setting[str | None]:
    return Setting("string", str, None, doc)


def password(doc: str) -> Setting[str | None]:
    return Setting("password", str, None, doc, secret=True)


def choice(default: str, doc: str, *words: str, any_case: bool = False) -> Setting[str]:
    allowed = OneOf(*words, any_case=any_case)
    return Setting("string", str.lower if any_case else str, default, doc, allowed=allowed)


def upper_choice(default: str, doc: str, *words: str) -> Setting[str]:
    """Names that Kafka writes in capitals, taken in any case."""
    return Setting("string", str.upper, default, doc, allowed=OneOf(*words))


def optional_choice(doc: str, *words: str) -> Setting[str | None]:
    return Setting("string", str, None, doc, allowed=OneOf(*words))


def names(default: tuple[str, ...], doc: str, *words: str) -> Setting[tuple[str, ...]]:
    return Setting("list", parse_list, default, doc, allowed=SomeOf(*words) if words else None)


def python_object(doc: str) -> Setting[Any]:
    """Something that only a program can give."""

    def refuse(_text: str) -> object:
        raise ValueError("must be a Python object, not text")

    return Setting("object", refuse, None, doc, takes_objects=True)


def component(default: str | None, doc: str) -> Setting[Any]:
    """A class, an instance, a function, or the name of one: see ``plugins.py``."""
    return Setting("class", str, default, doc, takes_objects=True)


def components(default: tuple[Any, ...], doc: str) -> Setting[tuple[Any, ...]]:
    """Several of those; a text is a list of names between commas."""
    return Setting("list", parse_list, default, doc, takes_objects=True)
