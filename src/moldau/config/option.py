"""One ``Option`` per setting: name, type, default, allowed values, when it may change, its meaning.

An option is declared once, as an attribute of a class of ``Options``, with a word of ``declare``::

    class ProducerSettings(Options):
        linger_ms = long(5, "How long a batch waits for more records.", at_least=0)

The attribute has Kafka's name with underscores for dots. On the class it is the option, on an
object of the class the value, and a type checker knows both. Everything that speaks about settings
reads these objects: loading ``server.properties``, what clients are given, requests that alter
configs, DescribeConfigs, and the documentation pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar, overload

from moldau.config.types import ConfigType, format_value
from moldau.config.validators import Between, EachOf, Validator
from moldau.errors import ErrorCode, KafkaError

T_co = TypeVar("T_co", covariant=True)

REQUIRED: Final[Any] = object()
"""The default of a setting that has none."""

HIDDEN: Final = "[hidden]"
"""What Kafka shows instead of a password."""


class Update(Enum):
    """When a broker's setting may change."""

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


def invalid_value(name: str, value: object, reason: str) -> ConfigError:
    """Kafka's sentence about a value that is not allowed, with what is allowed instead."""
    shown = value if isinstance(value, str) else repr(value)
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}")


class Synonym:
    """A broker's option that stands in for one of a topic or group, in a unit of its own."""

    # No NamedTuple: to a type checker an option in a class body is a descriptor.
    __slots__ = ("factor", "option")

    def __init__(self, option: AnyOption, factor: int = 1) -> None:
        self.option = option
        self.factor = factor


class Option(Generic[T_co]):
    """One setting. ``T_co`` is the Python type of its parsed value."""

    __slots__ = (
        "allowed", "attribute", "convert", "default", "doc", "inert",
        "internal", "listed", "name", "synonyms", "type", "update",
    )  # fmt: skip

    def __init__(
        self,
        type: ConfigType,  # noqa: A002
        convert: Callable[[str], Any],
        default: T_co,
        doc: str,
        *,
        name: str = "",
        at_least: float | None = None,
        at_most: float | None = None,
        allowed: Validator | None = None,
        update: Update = Update.READ_ONLY,
        inert: bool = False,
        internal: bool = False,
        listed: bool = True,
        synonyms: tuple[Synonym, ...] = (),
    ) -> None:
        if at_least is not None or at_most is not None:
            allowed = Between(at_least, at_most)
        self.name = name
        self.attribute = ""
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
        self.listed = listed and not internal
        """Whether DescribeConfigs shows it even when nobody set it."""
        self.synonyms = synonyms
        """What stands in for it where it is not set, the winning one first."""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T_co: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T_co:
        # Objects hold their values in their own dictionaries, which Python asks first.
        if instance is None:
            return self
        raise AttributeError(self.attribute)

    def __repr__(self) -> str:
        return f"Option({self.name!r})"

    @property
    def kind(self) -> str:
        """The type in words."""
        return self.type.name.lower()

    @property
    def sensitive(self) -> bool:
        """Whether nobody may see the value: no answer, no error, no ``repr`` shows it."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> T_co:
        """The value that ``text`` stands for; a ``ConfigError`` says what is allowed instead."""
        try:
            value: T_co = self.convert(text.strip())
        except ValueError as error:
            raise self.refusal(text, str(error)) from None
        if self.allowed is not None:
            # What is refused of a list of words is one of them.
            values: Any = value if isinstance(self.allowed, EachOf) else (value,)
            for checked in values:
                reason = self.allowed.reason(checked)
                if reason is not None:
                    raise self.refusal(format_value(checked), reason)
        return value

    def read(self, value: object) -> T_co:
        """The value that a program gave, as text or in its own type, checked like text."""
        if value is None and self.default is None:
            return self.default
        return self.parse(self._as_text(value))

    def refusal(self, value: object, reason: str) -> ConfigError:
        if self.sensitive:
            return ConfigError(f"Invalid value {HIDDEN} for configuration {self.name}: {reason}")
        return invalid_value(self.name, value, reason)

    def format(self, value: object) -> str | None:
        """The value as Kafka prints it; None when unset."""
        return None if value is None else format_value(value)

    def _as_text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return format_value(value)
        if self.type is ConfigType.LIST and isinstance(value, list | tuple | set | frozenset):
            if all(isinstance(item, str) for item in value):
                return ",".join(value)
            raise self.refusal(value, "must be a list of strings")
        raise self.refusal(value, f"must be of type {self.kind}, not {type(value).__name__}")


AnyOption: TypeAlias = Option[Any]


class Options:
    """Options that belong together: a section of a documentation page, or all of a program's.

    The docstring of such a class is the section's first paragraph. A class that inherits from
    others has their options too.
    """

    title: ClassVar[str] = ""
    """The section's heading."""
    table: ClassVar[Mapping[str, AnyOption]] = {}
    """The options by Kafka's names."""

    def __init_subclass__(cls) -> None:
        table: dict[str, AnyOption] = {}
        for base in cls.__bases__:
            if issubclass(base, Options):
                table.update(base.table)
        table.update(
            (value.name, value) for value in vars(cls).values() if isinstance(value, Option)
        )
        cls.table = table
