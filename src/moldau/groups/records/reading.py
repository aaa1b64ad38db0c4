"""Reading the primitive types of the Kafka protocol from the bytes of one key or value."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TypeVar
from uuid import UUID

from moldau.records.errors import InvalidRecordError

T = TypeVar("T")

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_MAX_VARINT_BYTES = 5


class Reader:
    """Reads one field after the other; ``InvalidRecordError`` when the bytes do not fit."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    @property
    def rest(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        start = self._position
        end = start + size
        if size < 0 or end > len(self._data):
            raise InvalidRecordError(f"a field of {size} bytes, but {self.rest} are left")
        self._position = end
        return self._data[start:end]

    def int8(self) -> int:
        value = self.take(1)[0]
        return value - 256 if value > 127 else value

    def int16(self) -> int:
        value: int = _INT16.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack(self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack(self.take(8))[0]
        return value

    def uuid(self) -> UUID:
        return UUID(bytes=self.take(16))

    def varint(self) -> int:
        """An unsigned variable-length integer."""
        value = 0
        for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise InvalidRecordError("a variable-length integer of more than five bytes")

    def string(self) -> str:
        return _present(self.nullable_string())

    def nullable_string(self) -> str | None:
        return self._text(self.int16())

    def compact_string(self) -> str:
        return _present(self.compact_nullable_string())

    def compact_nullable_string(self) -> str | None:
        return self._text(self.varint() - 1)

    def sized_bytes(self) -> bytes:
        return self.take(self.int32())

    def compact_bytes(self) -> bytes:
        return self.take(self.varint() - 1)

    def array(self, element: Callable[[], T]) -> tuple[T, ...]:
        return self._elements(self.int32(), element)

    def compact_array(self, element: Callable[[], T]) -> tuple[T, ...]:
        return self._elements(self.varint() - 1, element)

    def compact_nullable_array(self, element: Callable[[], T]) -> tuple[T, ...] | None:
        size = self.varint() - 1
        return None if size < 0 else self._elements(size, element)

    def tags(self) -> dict[int, Reader]:
        """The tagged fields, each as a reader of its own; empty for what older versions wrote."""
        return {self.varint(): Reader(self.take(self.varint())) for _ in range(self.varint())}

    def _text(self, size: int) -> str | None:
        if size < 0:
            return None
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRecordError("a string that is not UTF-8") from error

    def _elements(self, size: int, element: Callable[[], T]) -> tuple[T, ...]:
        # Every element has a byte at least, so an absurd size is found before memory is spent.
        if size < 0 or size > self.rest:
            raise InvalidRecordError(f"an array of {size} elements in {self.rest} bytes")
        return tuple([element() for _ in range(size)])


def _present(text: str | None) -> str:
    if text is None:
        raise InvalidRecordError("null where a string must be")
    return text
