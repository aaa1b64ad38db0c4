"""What ``send`` may be given: checked where something does not fit, and in words.

Compiled code refuses a wrong type by itself, without a word on which argument it was, so this is
asked only then; and headers that are not pairs of text and bytes yet are made so here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.client.errors import SerializationError
from moldau.client.producer.accumulator import Headers

SendHeaders = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]] | None
"""Headers as callers may write them: pairs or a mapping; text values are sent as UTF-8."""


def checked(
    topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp: Any
) -> Headers:
    """Raise what is wrong with a record; else its headers, as records have them."""
    check_place(topic, partition, timestamp)
    check_bytes(key, value)
    return pairs(headers)


def check_place(topic: Any, partition: Any, timestamp: Any) -> None:
    """Raise if a record cannot go there by its types."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {_kind(topic)}")
    if partition is not None and not isinstance(partition, int):
        raise TypeError(f"partition must be an int, not {_kind(partition)}")
    if timestamp is not None and not isinstance(timestamp, int):
        raise TypeError(
            f"timestamp must be an int, milliseconds since 1970, not {_kind(timestamp)}"
        )


def check_bytes(key: Any, value: Any) -> None:
    for what, part in (("key", key), ("value", value)):
        if part is not None and not isinstance(part, bytes):
            raise needs_bytes(what, part)


def check_callback(on_delivery: Any) -> None:
    if on_delivery is not None and not callable(on_delivery):
        raise TypeError(f"on_delivery must be a function of the delivery, not {_kind(on_delivery)}")


def pairs(headers: Any) -> Headers:
    """Headers as records have them."""
    if headers is None:
        return ()
    if isinstance(headers, Mapping):
        headers = headers.items()
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise TypeError(f"headers must be a mapping or a list of pairs, not {_kind(headers)}")
    return [_pair(header) for header in headers]


def _pair(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, tuple | list) or len(header) != 2:
        raise TypeError(f"headers must be pairs of a name and a value; {header!r} is none")
    name, value = header
    if not isinstance(name, str):
        raise TypeError(f"headers must have names of str, not {_kind(name)}: {name!r}")
    if value is None or isinstance(value, bytes):
        return name, value
    if isinstance(value, str):
        return name, value.encode()
    if isinstance(value, bytearray | memoryview):
        return name, bytes(value)
    raise TypeError(f"headers must have values of bytes, str or None; {name!r} has {_kind(value)}")


def needs_bytes(what: str, value: Any) -> SerializationError:
    """What to say of a key or value that is not bytes and has no serializer."""
    hint = (
        f"bytes({what}) makes a copy"
        if isinstance(value, bytearray | memoryview)
        else f"{what}_serializer='str' or 'json' converts it"
    )
    return SerializationError(f"The {what} must be bytes, not {_kind(value)}; {hint}")


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
