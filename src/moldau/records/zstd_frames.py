"""Whether zstd data is whole: all of its frames end, and nothing is left behind the last.

The streaming decoder gives what a cut-off frame holds and says nothing of the cut. Consumers do:
such a batch must not be stored. Only the sizes of the blocks are read here. Compiled by mypyc where
a compiler was at hand, because a block may be of three bytes.
"""

from __future__ import annotations

from typing import Final

from moldau.records.native import i64

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC: Final = b"\x2a\x4d\x18"
"""After a first byte from 0x50 to 0x5f."""
_SINGLE_SEGMENT: Final[i64] = 0x20
_CHECKSUM: Final[i64] = 0x04
_RLE_BLOCK: Final[i64] = 1
_RESERVED_BLOCK: Final[i64] = 3


def frames_are_whole(data: bytes) -> bool:
    """Returns whether ``data`` is a row of complete frames (RFC 8878), one at least."""
    limit: i64 = len(data)
    pos: i64 = 0
    try:
        while True:
            if data[pos : pos + 4] == _MAGIC:
                pos = _frame_end(data, pos + 4)
            elif data[pos] & 0xF0 == 0x50 and data[pos + 1 : pos + 4] == _SKIPPABLE_MAGIC:
                pos = pos + 8 + _little_endian(data, pos + 4, 4)
            else:
                return False
            if pos >= limit:
                return pos == limit
    except IndexError:
        return False


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
