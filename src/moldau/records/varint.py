"""Variable-length integers: zigzag, seven bits a byte, least significant first.

Nearly all of them in a batch are one or two bytes long. The reader takes the one-byte case inline
and comes here for the rest; the builder looks the encoding up.
"""

from __future__ import annotations

from typing import Final

from moldau.records.errors import InvalidRecordError
from moldau.records.native import i64

INT32_BYTES: Final = 5
INT64_BYTES: Final = 10


def finish_varint(data: bytes, pos: i64, first: i64, max_bytes: i64) -> tuple[i64, i64]:
    """The number whose first byte, with its continuation bit, was ``first``; and where it ends.

    ``pos`` is after the first byte. The sign is kept apart from the start, so that the largest
    magnitude is 63 bits wide and the machine word of the compiled module holds it.
    """
    magnitude: i64 = (first & 0x7F) >> 1
    second: i64 = data[pos]
    if second < 0x80:  # most of those that come here
        magnitude |= second << 6
        return (-1 - magnitude if first & 1 else magnitude), pos + 1
    shift: i64 = 6
    last_shift: i64 = 6 + 7 * (max_bytes - 2)
    while True:
        byte: i64 = data[pos]
        pos += 1
        if shift == 62 and byte > 1:
            raise InvalidRecordError("a variable-length integer does not fit into 64 bits")
        magnitude |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > last_shift:
            raise InvalidRecordError("a variable-length integer is too long")
    if first & 1:
        return -1 - magnitude, pos
    return magnitude, pos


def read_varint(data: bytes, pos: i64, max_bytes: i64) -> tuple[i64, i64]:
    """The number at ``pos``, and where it ends."""
    first: i64 = data[pos]
    pos += 1
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), pos
    return finish_varint(data, pos, first, max_bytes)


def encode_varint(value: int) -> bytes:
    """``value``, of at most 64 bits, in its shortest form."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 1024:
        return _SHORT[zigzag]
    return _encode_long(zigzag)


def _encode_long(zigzag: int) -> bytes:
    head = b""
    while zigzag >= 1024:
        head += _CONTINUED[zigzag & 0x7F]
        zigzag >>= 7
    return head + _SHORT[zigzag]


_CONTINUED: Final = [bytes((septet | 0x80,)) for septet in range(128)]
"""A septet that is not the last."""

_SHORT: Final = [
    bytes((zigzag,)) if zigzag < 128 else bytes((zigzag & 0x7F | 0x80, zigzag >> 7))
    for zigzag in range(1024)
]
"""What needs no computing: numbers from -512 to 511 by their zigzag number."""
