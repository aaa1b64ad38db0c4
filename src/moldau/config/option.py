"""One ``Option`` per setting: name, type, default, allowed values, when it may change, its meaning.

Everything that speaks about settings reads these objects: loading ``server.properties``, checking
requests that alter configs, DescribeConfigs, and the documentation page. Options are created
through an ``Area``, which also groups them for the page.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any, Final, Generic, TypeAlias, TypedDict, TypeVar, Unpack

from moldau.config.validators import Between, Validator
from moldau.errors import ErrorCode, KafkaError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

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


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as DescribeConfigs sends it; a lower number wins."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class Update(Enum):
    """When a setting may change."""

    READ_ONLY = "read-only"
    """Only in ``server.properties``, before a start."""
    PER_BROKER = "per-broker"
    """While the broker runs, for one broker at a time."""
    CLUSTER_WIDE = "cluster-wide"
    """While brokers run, for one broker or for all of them."""


class ConfigError(KafkaError):
    """A setting that cannot be accepted; the text is one sentence for a person."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)

    def __str__(self) -> str:
        return self.message


class Option(Generic[T_co]):
    """One setting. ``T_co`` is the Python type of its parsed value."""

    __slots__ = (
        "allowed", "convert", "default", "doc", "inert",
        "internal", "listed", "name", "type", "update",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        type: ConfigType,  # noqa: A002
        convert: Callable[[str], Any],
        default: T_co,
        doc: str,
        allowed: Validator | None,
        update: Update,
        inert: bool,
        internal: bool,
        listed: bool,
    ) -> None:
        self.name = name
        self.type = type
        self.convert = convert
        self.default: T_co = default
        self.doc = doc
        self.allowed = allowed
        self.update = update
        self.inert = inert
        """Checked and shown, but without effect."""
        self.internal = internal
        """For tests and experts; not shown by DescribeConfigs."""
        self.listed = listed
        """Whether DescribeConfigs shows it even when nobody set it."""

    def __repr__(self) -> str:
        return f"Option({self.name!r})"

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> T_co:
        """The value that ``text`` stands for; a ``ConfigError`` says what is allowed instead."""
        try:
            value: T_co = self.convert(text.strip())
        except ValueError as error:
            raise self.refusal(text, str(error)) from None
        if self.allowed is not None:
            reason = self.allowed.reason(value)
            if reason is not None:
                raise self.refusal(text, reason)
        return value

    def refusal(self, text: str, reason: str) -> ConfigError:
        shown = "[hidden]" if self.sensitive else text
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {reason}")

    def format(self, value: object) -> str | None:
        """The value as Kafka prints it; None when unset."""
        return None if value is None else format_value(value)


AnyOption: TypeAlias = Option[Any]


class Traits(TypedDict, total=False):
    """What most options leave at its default."""

    at_least: float
    at_most: float
    allowed: Validator
    update: Update
    inert: bool
    internal: bool
    listed: bool


class Area:
    """A group of options that belong together: a section of the documentation page."""

    __slots__ = ("intro", "options", "title")

    def __init__(self, title: str, intro: str) -> None:
        self.title = title
        self.intro = intro
        self.options: list[AnyOption] = []

    def add(
        self,
        name: str,
        type: ConfigType,  # noqa: A002
        convert: Callable[[str], Any],
        default: T,
        doc: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        allowed: Validator | None = None,
        update: Update = Update.READ_ONLY,
        inert: bool = False,
        internal: bool = False,
        listed: bool = True,
    ) -> Option[T]:
        if at_least is not None or at_most is not None:
            allowed = Between(at_least, at_most)
        shown = listed and not internal
        option = Option(
            name, type, convert, default, doc, allowed, update, inert, internal, shown
        )  # fmt: skip
        self.options.append(option)
        return option

    def boolean(self, name: str, default: bool, doc: str, **traits: Unpack[Traits]) -> Option[bool]:
        return self.add(name, ConfigType.BOOLEAN, parse_boolean, default, doc, **traits)

    def short(self, name: str, default: int, doc: str, **traits: Unpack[Traits]) -> Option[int]:
        return self.add(name, ConfigType.SHORT, parse_short, default, doc, **traits)

    def integer(self, name: str, default: int, doc: str, **traits: Unpack[Traits]) -> Option[int]:
        return self.add(name, ConfigType.INT, parse_int, default, doc, **traits)

    def optional_integer(self, name: str, doc: str, **traits: Unpack[Traits]) -> Option[int | None]:
        return self.add(name, ConfigType.INT, parse_int, None, doc, **traits)

    def long(self, name: str, default: int, doc: str, **traits: Unpack[Traits]) -> Option[int]:
        return self.add(name, ConfigType.LONG, parse_long, default, doc, **traits)

    def optional_long(self, name: str, doc: str, **traits: Unpack[Traits]) -> Option[int | None]:
        return self.add(name, ConfigType.LONG, parse_long, None, doc, **traits)

    def double(
        self, name: str, default: float, doc: str, **traits: Unpack[Traits]
    ) -> Option[float]:
        return self.add(name, ConfigType.DOUBLE, parse_double, default, doc, **traits)

    def string(self, name: str, default: str, doc: str, **traits: Unpack[Traits]) -> Option[str]:
        return self.add(name, ConfigType.STRING, str, default, doc, **traits)

    def optional_string(self, name: str, doc: str, **traits: Unpack[Traits]) -> Option[str | None]:
        return self.add(name, ConfigType.STRING, str, None, doc, **traits)

    def optional_class(self, name: str, doc: str, **traits: Unpack[Traits]) -> Option[str | None]:
        return self.add(name, ConfigType.CLASS, str, None, doc, **traits)

    def names(
        self, name: str, default: tuple[str, ...], doc: str, **traits: Unpack[Traits]
    ) -> Option[tuple[str, ...]]:
        return self.add(name, ConfigType.LIST, parse_list, default, doc, **traits)

    def optional_names(
        self, name: str, doc: str, **traits: Unpack[Traits]
    ) -> Option[tuple[str, ...] | None]:
        return self.add(name, ConfigType.LIST, parse_list, None, doc, **traits)


def parse_boolean(text: str) -> bool:
    word = text.lower()
    if word == "true":
        return True
    if word == "false":
        return False
    raise ValueError("must be true or false")


def _whole_number(text: str, low: int, high: int) -> int:
    # Python's int() also takes "1_000" and non-ASCII digits, which Kafka refuses.
    digits = text[1:] if text[:1] in ("-", "+") else text
    if digits.isascii() and digits.isdigit():
        number = int(text)
        if low <= number <= high:
            return number
    raise ValueError(f"must be a whole number from {low} to {high}")


def parse_short(text: str) -> int:
    return _whole_number(text, -(2**15), 2**15 - 1)


def parse_int(text: str) -> int:
    return _whole_number(text, MIN_INT, MAX_INT)


def parse_long(text: str) -> int:
    return _whole_number(text, MIN_LONG, MAX_LONG)


def parse_double(text: str) -> float:
    try:
        number = float(text) if "_" not in text else None
    except ValueError:
        number = None
    # Kafka lets NaN through every range check; no setting can mean anything by it.
    if number is None or number - number != 0:
        raise ValueError("must be a number")
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
