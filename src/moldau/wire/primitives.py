"""Kafka's wire primitives, as far as the hand-written codecs need them.

Varints, the two kinds of strings, tagged sections, and two bounded caches: the same few topic
names, client ids and topic ids come with every request, and looking their bytes up is cheaper than
building a new ``str`` (whose hash is then cold) or ``UUID`` (0.8 µs).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - reads as what it is
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.wire.errors import DecodeError, EncodeError, TooManyElementsError

MAX_ELEMENTS: Final = 1 << 20
"""Most array elements that one request may carry in all.

Kafka only demands that an array has no more elements than bytes are left. An element takes few
bytes on the wire and some hundred as Python objects, so a 100 MB frame of empty topic names would
take gigabytes; no sane request comes near this number.
"""

MAX_TAGS: Final = 32
"""Most tagged fields in one section; Kafka's largest has five."""

MALFORMED: Final = (StructError, IndexError, ValueError, OverflowError)
"""What reading past the end or decoding nonsense raises (bad UTF-8 is a ``ValueError``)."""

_CACHE_SIZE: Final = 8192
_CACHED_TEXT_BYTES: Final = 256

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_ERROR_CODES: Final = {int(code): code for code in ErrorCode}
_text_cache: Final[dict[bytes, str]] = {}
_uuid_cache: Final[dict[bytes, UUID]] = {}


def text_from(raw: bytes) -> str:
    """The string of these UTF-8 bytes, the same object each time for short ones."""
    text = _text_cache.get(raw)
    if text is None:
        text = raw.decode()
        if len(raw) <= _CACHED_TEXT_BYTES:
            if len(_text_cache) >= _CACHE_SIZE:
                _text_cache.clear()
            _text_cache[raw] = text
    return text


def uuid_from(raw: bytes) -> UUID:
    """The UUID of these 16 bytes, the same object each time."""
    value = _uuid_cache.get(raw)
    if value is None:
        value = UUID(bytes=raw)
        if len(_uuid_cache) >= _CACHE_SIZE:
            _uuid_cache.clear()
        _uuid_cache[raw] = value
    return value


def error_from(code: int) -> ErrorCode:
    """The error of this code; an unknown one reads as UNKNOWN_SERVER_ERROR, as in Kafka."""
    return _ERROR_CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def read_uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and 32 bits, and the position after it."""
    byte = buf[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, pos
    raise DecodeError("varint longer than five bytes")


def check_text_length(length: int) -> None:
    """No string is longer than the older versions can say, though the flexible ones could: as in
    Kafka, whoever stores or shows one may rely on it.
    """
    if length > MAX_TEXT_LENGTH:
        raise DecodeError(f"string of {length} bytes, longer than {MAX_TEXT_LENGTH}")


def read_compact_text(buf: memoryview, pos: int) -> tuple[str | None, int]:
    """A compact string of the flexible versions, or None, and the position after it."""
    length = buf[pos]
    pos += 1
    if length >= 0x80:
        length, pos = read_uvarint(buf, pos - 1)
        check_text_length(length - 1)
    if length == 0:
        return None, pos
    end = pos + length - 1
    if end > len(buf):
        raise DecodeError("string reaches past the end of the message")
    return text_from(buf[pos:end].tobytes()), end


def read_legacy_text(buf: memoryview, pos: int) -> tuple[str | None, int]:
    """A string with a 16-bit length, or None, and the position after it."""
    length = _INT16.unpack_from(buf, pos)[0]
    pos += 2
    if length < 0:
        return None, pos
    end = pos + length
    if end > len(buf):
        raise DecodeError("string reaches past the end of the message")
    return text_from(buf[pos:end].tobytes()), end


def read_length(buf: memoryview, pos: int, flexible: bool) -> tuple[int, int]:
    """The length of an array or of bytes, negative for null, and the position after it."""
    if flexible:
        length, pos = read_uvarint(buf, pos)
        return length - 1, pos
    return _INT32.unpack_from(buf, pos)[0], pos + 4


def check_count(count: int, smallest: int, left: int, max_elements: int = MAX_ELEMENTS) -> None:
    """Refuse an array that cannot fit into the bytes that are left, or that has more elements than
    the message may have.
    """
    if count < 0:
        raise DecodeError("null where an array must be")
    if count * smallest > left:
        raise DecodeError(f"array of {count} elements, but only {left} bytes left")
    if count > max_elements:
        raise TooManyElementsError("more array elements than any sane message has")


def length_prefix(length: int, flexible: bool) -> bytes:
    """The length of an array or of bytes; -1 for null."""
    return uvarint(length + 1) if flexible else _INT32.pack(length)


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    parts = bytearray()
    while value >= 0x80:
        parts.append((value & 0x7F) | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


MAX_TEXT_LENGTH: Final = 0x7FFF
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def compact_string(text: str | None) -> bytes:
    """A (nullable) compact string: length + 1 as a varint, then the bytes; null is 0."""
    if text is None:
        return b"\x00"
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def legacy_string(text: str | None) -> bytes:
    """A (nullable) string of the inflexible versions: 16-bit length, -1 for null."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    if len(raw) > MAX_TEXT_LENGTH:
        raise EncodeError(f"string of {len(raw)} bytes is too long for this version")
    return _INT16.pack(len(raw)) + raw


def read_tag_count(buf: memoryview, pos: int) -> tuple[int, int]:
    """The number of fields of a tagged section, and the position after it."""
    count, pos = read_uvarint(buf, pos)
    if count > MAX_TAGS:
        raise DecodeError(f"{count} tagged fields, more than any sane message has")
    return count, pos


def skip_tags(buf: memoryview, pos: int) -> int:
    """The position after a tagged-field section whose tags are all unknown to us."""
    count, pos = read_tag_count(buf, pos)
    end = len(buf)
    while count:
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise DecodeError("tagged field reaches past the end of the message")
        count -= 1
    return pos
