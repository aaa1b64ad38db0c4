"""The parts that wait to be sent to one peer."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from moldau.machine.disk import Buffer, FileSlice, ReadableFile
from moldau.machine.errors import TruncatedFileError
from moldau.machine.network import Part

# Up to this a slice that has to wait is read: it takes little memory, and then one call sends it
# with the bytes around it.
SMALL_SLICE: Final = 8 * 1024
# Bytes up to this total are joined for one send; more than that goes out as several buffers,
# uncopied.
JOIN_LIMIT: Final = 16 * 1024
# Linux takes at most 1024 buffers per call; far fewer already fill any socket.
MAX_BUFFERS: Final = 256

BUFFER_TYPES: Final = (bytes, memoryview, bytearray)


class OutgoingSlice:
    """What is still to be sent of a file slice."""

    __slots__ = ("file", "position", "remaining")

    def __init__(self, part: FileSlice) -> None:
        # The file and not its descriptor: that number is somebody else's once the file is closed.
        self.file: ReadableFile = part.file
        self.position = part.position
        self.remaining = part.size

    def advance(self, nbytes: int) -> None:
        self.position += nbytes
        self.remaining -= nbytes


def size_of(parts: Sequence[Part]) -> int:
    """Returns how many bytes ``parts`` stand for."""
    size = 0
    for part in parts:
        size += len(part) if isinstance(part, BUFFER_TYPES) else part.size
    return size


def in_memory(parts: Sequence[Part]) -> list[Buffer]:
    """Returns ``parts`` with the slices read; OSError when that fails."""
    return [
        part
        if isinstance(part, BUFFER_TYPES)
        else read_exactly(part.file, part.size, part.position)
        for part in parts
    ]


def read_exactly(file: ReadableFile, size: int, position: int) -> bytes:
    data = file.pread(size, position)
    if len(data) < size:
        raise TruncatedFileError(
            f"{size} bytes at {position} were to be sent, "
            f"but the file ends after {len(data)} of them"
        )
    return data


class Outgoing:
    """A queue of buffers and file slices; ``size`` is how many bytes they stand for."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: deque[Buffer | OutgoingSlice] = deque()
        self.size = 0

    def append(self, data: Buffer) -> None:
        self._parts.append(data)
        self.size += len(data)

    def extend(self, parts: Sequence[Part]) -> None:
        """Queue ``parts``; small slices are read at once, OSError when that fails."""
        append = self._parts.append
        size = 0
        for part in parts:
            if isinstance(part, BUFFER_TYPES):
                if length := len(part):
                    append(part)
                    size += length
            elif length := part.size:
                if length <= SMALL_SLICE:
                    append(read_exactly(part.file, length, part.position))
                else:
                    append(OutgoingSlice(part))
                size += length
        self.size += size

    def head(self) -> OutgoingSlice | None:
        """Returns the file slice whose turn it is, None when bytes come first."""
        first = self._parts[0]
        return first if type(first) is OutgoingSlice else None

    def buffers(self) -> tuple[list[Buffer], bool]:
        """Returns the buffers before the next file slice, and whether something comes right behind
        them.
        """
        found: list[Buffer] = []
        total = 0
        for part in self._parts:
            if type(part) is OutgoingSlice or len(found) == MAX_BUFFERS or total >= JOIN_LIMIT * 4:
                return found, True
            found.append(part)  # type: ignore[arg-type]  # narrowed by the test above
            total += len(part)  # type: ignore[arg-type]
        return found, False

    def consume(self, nbytes: int) -> None:
        """``nbytes`` from the head on are sent."""
        self.size -= nbytes
        parts = self._parts
        while nbytes:
            first = parts[0]
            length = first.remaining if type(first) is OutgoingSlice else len(first)  # type: ignore[arg-type]
            if length > nbytes:
                if type(first) is OutgoingSlice:
                    first.advance(nbytes)
                else:
                    parts[0] = memoryview(first)[nbytes:]  # type: ignore[arg-type]
                return
            parts.popleft()
            nbytes -= length

    def clear(self) -> None:
        self._parts.clear()
        self.size = 0
