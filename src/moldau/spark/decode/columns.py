"""Decoding a whole column at once, and finding the few values that cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

Values = Sequence[bytes | None]
Decode = Callable[[Values], pa.Array]
"""A typed column of so many values; ``DecodeError`` or one of Arrow's if any cannot be decoded."""


class DecodeError(ValueError):
    """Bytes that are not what their format says."""


_FAILURES: Final = (DecodeError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)


def decode_column(values: Values, decode: Decode, bad: dict[int, str], name: str) -> pa.Array:
    """The typed column, with nulls for values that cannot be decoded; ``bad`` gets the reasons.

    A column with a bad value is halved until the value stands alone, so that the good ones are
    still decoded many at a time.
    """
    parts: list[pa.Array] = []
    todo = [(0, len(values))]
    while todo:
        start, end = todo.pop()
        try:
            parts.append(decode(values[start:end]))
        except _FAILURES as error:
            if end - start == 1:
                bad.setdefault(start, f"{name}: {error}")
                parts.append(decode([None]))
            else:
                middle = (start + end) // 2
                todo += [(middle, end), (start, middle)]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
