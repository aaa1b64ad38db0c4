"""Building kio messages from plain values.

kio types its integer fields as ranges (``i32``, ``i64`` …) that only a constructor call satisfies,
about 1 µs a field. The encoder checks ranges anyway, so handlers pass plain ints; this one function
is where the checker is told so. Field names are still checked, by the dataclass, and the result
keeps its type.

Whoever makes a response does not know how long its client should wait before the next request.
Responses are made with a throttle time of 0, and ``messages.encode_response`` is told the true one.
"""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any, Final, TypeVar

M = TypeVar("M")

THROTTLE: Final = "throttle_time"
"""The field of every response that says for how long its client should hold back (KIP-219)."""

_has_throttle: Final[dict[type, bool]] = {}


def make(message: type[M], /, **fields: Any) -> M:
    """An instance of the kio dataclass ``message``."""
    has_throttle = _has_throttle.get(message)
    if has_throttle is None:
        names = [field.name for field in fields_of(message)]  # type: ignore[arg-type]  # kio's are
        has_throttle = _has_throttle[message] = THROTTLE in names
    if has_throttle:
        fields.setdefault(THROTTLE, 0)
    return message(**fields)
