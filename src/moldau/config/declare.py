"""The words with which options are declared, one for each type.

    retention_bytes = long(-1, "Old segments are deleted while a partition is larger.")

The default comes first, then the meaning; an ``optional_`` one has no default and may be unset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypedDict, TypeVar, Unpack

from moldau.config.option import Option, Synonym, Update
from moldau.config.types import (
    ConfigType,
    parse_boolean,
    parse_double,
    parse_int,
    parse_list,
    parse_long,
    parse_short,
)
from moldau.config.validators import Validator

T = TypeVar("T")

PER_BROKER: Final = Update.PER_BROKER
CLUSTER_WIDE: Final = Update.CLUSTER_WIDE


class Traits(TypedDict, total=False):
    """What most options leave at its default."""

    at_least: float
    at_most: float
    allowed: Validator
    name: str
    update: Update
    inert: bool
    internal: bool
    listed: bool
    synonyms: tuple[Synonym, ...]


def boolean(default: bool, doc: str, **traits: Unpack[Traits]) -> Option[bool]:
    return Option(ConfigType.BOOLEAN, parse_boolean, default, doc, **traits)


def short(default: int, doc: str, **traits: Unpack[Traits]) -> Option[int]:
    return Option(ConfigType.SHORT, parse_short, default, doc, **traits)


def integer(default: int, doc: str, **traits: Unpack[Traits]) -> Option[int]:
    return Option(ConfigType.INT, parse_int, default, doc, **traits)


def optional_integer(doc: str, **traits: Unpack[Traits]) -> Option[int | None]:
    return Option(ConfigType.INT, parse_int, None, doc, **traits)


def long(default: int, doc: str, **traits: Unpack[Traits]) -> Option[int]:
    return Option(ConfigType.LONG, parse_long, default, doc, **traits)


def optional_long(doc: str, **traits: Unpack[Traits]) -> Option[int | None]:
    return Option(ConfigType.LONG, parse_long, None, doc, **traits)


def double(default: float, doc: str, **traits: Unpack[Traits]) -> Option[float]:
    return Option(ConfigType.DOUBLE, parse_double, default, doc, **traits)


def string(
    default: str, doc: str, *, convert: Callable[[str], str] = str, **traits: Unpack[Traits]
) -> Option[str]:
    """``convert`` may be ``str.lower`` or ``str.upper``, for words in whatever case."""
    return Option(ConfigType.STRING, convert, default, doc, **traits)


def optional_string(doc: str, **traits: Unpack[Traits]) -> Option[str | None]:
    return Option(ConfigType.STRING, str, None, doc, **traits)


def optional_class(doc: str, **traits: Unpack[Traits]) -> Option[str | None]:
    return Option(ConfigType.CLASS, str, None, doc, **traits)


def names(default: tuple[str, ...], doc: str, **traits: Unpack[Traits]) -> Option[tuple[str, ...]]:
    return Option(ConfigType.LIST, parse_list, default, doc, **traits)


def optional_names(doc: str, **traits: Unpack[Traits]) -> Option[tuple[str, ...] | None]:
    return Option(ConfigType.LIST, parse_list, None, doc, **traits)


def password(doc: str, **traits: Unpack[Traits]) -> Option[str | None]:
    return Option(ConfigType.PASSWORD, str, None, doc, **traits)


def following(source: Option[T], doc: str = "", *, inert: bool = False) -> Option[T]:
    """An option of a topic or group with type, default and limits of the broker's behind it."""
    return Option(
        source.type,
        source.convert,
        source.default,
        doc or source.doc,
        allowed=source.allowed,
        inert=inert or source.inert,
        synonyms=(Synonym(source),),
    )
