"""The types of settings: how each is read from text, and printed, as Kafka does both.

Also the types of what has settings.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

MIN_INT: Final = -(2**31)
MAX_INT: Final = 2**31 - 1
MIN_LONG: Final = -(2**63)
MAX_LONG: Final = 2**63 - 1


class ConfigType(IntEnum):
    """The type of a setting, numbered as DescribeConfigs sends it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ResourceType(IntEnum):
    """What settings belong to, numbered as the config APIs send it."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def parse_boolean(text: str) -> bool:
    word = text.lower()
    if word == "true":
        return True
    if word == "false":
        return False
    raise ValueError("Expected value to be either true or false")


def _whole_number(text: str, kind: ConfigType, low: int, high: int) -> int:
    # Python's int() also takes "1_000" and non-ASCII digits, which Kafka refuses.
    digits = text[1:] if text[:1] in ("-", "+") else text
    if digits.isascii() and digits.isdigit():
        number = int(text)
        if low <= number <= high:
            return number
    raise ValueError(f"Not a number of type {kind.name}")


def parse_short(text: str) -> int:
    return _whole_number(text, ConfigType.SHORT, -(2**15), 2**15 - 1)


def parse_int(text: str) -> int:
    return _whole_number(text, ConfigType.INT, MIN_INT, MAX_INT)


def parse_long(text: str) -> int:
    return _whole_number(text, ConfigType.LONG, MIN_LONG, MAX_LONG)


def parse_double(text: str) -> float:
    try:
        number = float(text) if "_" not in text else None
    except ValueError:
        number = None
    # Kafka lets NaN through every range check; no setting can mean anything by it.
    if number is None or number - number != 0:
        raise ValueError("Not a number of type DOUBLE")
    return number


def parse_list(text: str) -> tuple[str, ...]:
    """Items between commas, each once, in their order."""
    if not text:
        return ()
    items = dict.fromkeys(item.strip() for item in text.split(","))
    if "" in items:
        raise ValueError("must not have empty items between its commas")
    return tuple(items)


def format_value(value: object) -> str:
    """A parsed value as Kafka's tools print it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def format_double(value: float) -> str:
    """As Java prints doubles, which is what DescribeConfigs sends: ``0.5``, ``1.0E10``."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(
        text for digits in range(1, 18) if float(text := f"{value:.{digits}e}") == value
    )
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa}E{int(exponent)}"
