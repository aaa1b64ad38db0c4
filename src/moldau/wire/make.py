"""Building kio messages from plain values.

kio types its integer fields as ranges (``i32``, ``i64`` …) that only a constructor call satisfies,
about 1 µs a field. The encoder checks ranges anyway, so handlers pass plain ints; this one function
is where the checker is told so. Field names are still checked, by the dataclass, and the result
keeps its type.
"""

from __future__ import annotations

from typing import Any, TypeVar

M = TypeVar("M")


def make(message: type[M], /, **fields: Any) -> M:
    """An instance of the kio dataclass ``message``."""
    return message(**fields)
