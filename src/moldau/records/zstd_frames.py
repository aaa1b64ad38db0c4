"""Whether zstd data is whole: all of its frames end, and nothing is left behind the last.

The streaming decoder gives what a cut-off frame holds and says nothing of the cut. Consumers do:
such a batch must not be stored. Only the sizes of the blocks are read here. Compiled by mypyc where
a compiler was at hand, because a block may be of three bytes.
"""

from __future__ import annotations

from typing import Final

from moldau.records.native import i64

UNKNOWN_SIZE: Final = -1
MAX_SIZE: Final = 2**63 - 1

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC: Final = b"\x2a\x4d\x18"
"""After a first byte from 0x50 to 0x5f."""
_SINGLE_SEGMENT: Final[i64] = 0x20
_CHECKSUM: Final[i64] = 0x04
_RLE_BLOCK: Final[i64] = 1
_RESERVED_BLOCK: Final[i64] = 3
_SMALLEST_OF_TWO_BYTES: Final[i64] = 256
_UNKNOWN_SIZE: Final = 8 * b"\xff"
"""How the libraries say it in eight bytes."""


def count_frames(data: bytes, most: i64) -> i64:
    """Returns of how many complete frames (RFC 8878) ``data`` is a row; 0 if it is none. Behind
    ``most`` of them it is not looked at.
    """
    limit: i64 = len(data)
    pos: i64 = 0
    count: i64 = 0
    try:
        while count < most:
            if data[pos : pos + 4] == _MAGIC:
                pos = _frame_end(data, pos + 4)
            elif data[pos] & 0xF0 == 0x50 and data[pos + 1 : pos + 4] == _SKIPPABLE_MAGIC:
                pos = pos + 8 + _little_endian(data, pos + 4, 4)
            else:
                return 0
            count += 1
            if pos >= limit:
                return count if pos == limit else 0
    except IndexError:
        return 0
    return count


def content_size(data: bytes) -> i64:
    """Returns how much the first frame of a row says that it holds, ``UNKNOWN_SIZE`` if it does not
    say. The frame must be complete.
    """
    descriptor: i64 = data[4]
    size_flag: i64 = descriptor >> 6
    is_single: bool = descriptor & _SINGLE_SEGMENT != 0
    if data[:4] != _MAGIC or (size_flag == 0 and not is_single):
        return UNKNOWN_SIZE
    pos: i64 = 5 if is_single else 6
    dictionary_flag: i64 = descriptor & 3
    pos += 4 if dictionary_flag == 3 else dictionary_flag
    if size_flag == 1:
        return _little_endian(data, pos, 2) + _SMALLEST_OF_TWO_BYTES
    if size_flag < 3:
        return _little_endian(data, pos, 1 << size_flag)
    if data[pos : pos + 8] == _UNKNOWN_SIZE:
        return UNKNOWN_SIZE
    # What leaves 63 bits is as impossible as what just does not.
    return MAX_SIZE if data[pos + 7] >= 0x80 else _little_endian(data, pos, 8)


def _frame_end(data: bytes, pos: i64) -> i64:
    """Where the frame ends whose descriptor is at ``pos``."""
    descriptor: i64 = data[pos]
    size_flag: i64 = descriptor >> 6
    pos += 1
    if not descriptor & _SINGLE_SEGMENT:
        pos += 1  # window
    elif size_flag == 0:
        pos += 1  # content size of one byte
    dictionary_flag: i64 = descriptor & 3
    pos += 4 if dictionary_flag == 3 else dictionary_flag
    if size_flag:
        pos += 1 << size_flag
    while True:
        header: i64 = _little_endian(data, pos, 3)
        kind: i64 = (header >> 1) & 3
        if kind == _RESERVED_BLOCK:
            raise IndexError
        pos += 3 + (1 if kind == _RLE_BLOCK else header >> 3)
        if header & 1:
            break
    if descriptor & _CHECKSUM:
        pos += 4
    return pos


def _little_endian(data: bytes, pos: i64, count: i64) -> i64:
    number: i64 = 0
    shift: i64 = 0
    end: i64 = pos + count
    while pos < end:
        byte: i64 = data[pos]
        number |= byte << shift
        shift += 8
        pos += 1
    return number
