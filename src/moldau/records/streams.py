"""What a compressed payload holds, a piece at a time.

However much a few kilobytes come to, whoever reads here has one piece of it in memory, and what
the codec needs to go on (zstd's window, at most 128 MiB as in Kafka's own decoder, and no more of
it than was read). The libraries are those that can stop in the middle: zlib, lz4, zstandard.
Framings are those of ``compression``.
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import cramjam
import lz4.frame
import zstandard

from moldau.records.batch import Buffer
from moldau.records.errors import DecompressionLimitError, InvalidRecordError
from moldau.records.zstd_frames import UNKNOWN_SIZE, content_size, count_frames

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
"""Magic, version, and the oldest version that can read it."""

_XERIAL_MAGIC_AS_LENGTH: Final = struct.unpack_from(">i", XERIAL_MAGIC)[0]
_SNAPPY_MAX_RATIO: Final = 64
"""A snappy copy element makes at most 64 bytes out of two."""
_INT32: Final = struct.Struct(">i")

_LZ4_FLAGS_AT: Final = 4
_LZ4_INDEPENDENT_BLOCKS: Final = 0b00100000
_LZ4_RESERVED: Final = 0b00000011
"""For Kafka. Today the lower one announces a dictionary."""

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_ZSTD_MAX_WINDOW: Final = 128 * 1024 * 1024
_ANY_NUMBER: Final = 2**62
_SMALL: Final = 1024 * 1024
_MOST_KEPT: Final = 4
_INPUT_PIECE: Final = 16 * 1024
"""zlib and lz4 copy what they have not got to yet with every call."""


class PayloadStream(ABC):
    """The bytes in a payload, ``limit`` of them at most. Each part but the first (members of gzip,
    blocks of snappy, frames of zstd) counts as ``part_cost`` more: parts take time, whatever they
    hold.
    """

    def __init__(self, limit: int, part_cost: int = 0) -> None:
        self._limit = limit
        self._room = limit
        self._part_cost = part_cost

    @property
    def cost(self) -> int:
        """What was read of the limit."""
        return self._limit - self._room

    def _next_part(self, count: int = 1) -> None:
        self._room -= count * self._part_cost
        if self._room < 0:
            raise DecompressionLimitError(self._limit)

    def read(self, size: int) -> bytes:
        """Returns the next bytes, ``size`` at most (of snappy the next block, however large), none
        at the end.

        InvalidRecordError if the data is damaged, DecompressionLimitError if it holds too much.
        """
        output = self._next(size)
        self._room -= len(output)
        if self._room < 0:
            raise DecompressionLimitError(self._limit)
        return output

    @abstractmethod
    def _next(self, size: int) -> bytes: ...


class GzipStream(PayloadStream):
    """One member; more of them follow one another as if they were one."""

    def __init__(self, data: Buffer, limit: int, part_cost: int = 0) -> None:
        super().__init__(limit, part_cost)
        self._rest = memoryview(data)
        self._waiting = b""
        self._member: Any = zlib.decompressobj(_GZIP_WINDOW)

    def _next(self, size: int) -> bytes:
        try:
            while True:
                if self._member.eof:
                    self._waiting = self._member.unused_data or self._next_input()
                    if not self._waiting:
                        return b""
                    self._next_part()
                    self._member = zlib.decompressobj(_GZIP_WINDOW)
                elif not self._waiting:
                    self._waiting = self._next_input()
                    if not self._waiting:
                        raise InvalidRecordError("gzip: the data is cut off")
                output: bytes = self._member.decompress(self._waiting, size)
                self._waiting = self._member.unconsumed_tail
                if output:
                    return output
        except zlib.error as error:
            raise InvalidRecordError(f"gzip: {error}") from error

    def _next_input(self) -> bytes:
        piece = bytes(self._rest[:_INPUT_PIECE])
        self._rest = self._rest[_INPUT_PIECE:]
        return piece


class Lz4Stream(PayloadStream):
    """One frame: Java's reader stops at its end."""

    def __init__(self, data: Buffer, limit: int, part_cost: int = 0) -> None:
        super().__init__(limit, part_cost)
        self._rest = memoryview(data)
        self._frame: Any = lz4.frame.LZ4FrameDecompressor()

    def _next(self, size: int) -> bytes:
        frame = self._frame
        try:
            while not frame.eof:
                piece = b""
                if frame.needs_input:
                    piece = bytes(self._rest[:_INPUT_PIECE])
                    self._rest = self._rest[_INPUT_PIECE:]
                    if not piece:
                        raise InvalidRecordError("lz4: the data is cut off")
                output: bytes = frame.decompress(piece, max_length=size)
                if output:
                    return output
        except RuntimeError as error:
            raise InvalidRecordError(f"lz4: {error}") from error
        if frame.unused_data or self._rest:
            raise InvalidRecordError("lz4: there is data behind the frame")
        return b""


def check_lz4_flags(data: Buffer) -> None:
    """InvalidRecordError if the frame is of a kind that Java's consumers do not read, whatever is
    in it: with blocks that need those before them, or a dictionary.
    """
    if len(data) > _LZ4_FLAGS_AT:
        flags = data[_LZ4_FLAGS_AT]
        if flags & (_LZ4_INDEPENDENT_BLOCKS | _LZ4_RESERVED) != _LZ4_INDEPENDENT_BLOCKS:
            raise InvalidRecordError(
                "lz4: the blocks of the frame need one another, or a dictionary"
            )


class ZstdStream(PayloadStream):
    """A row of frames. To make a decoder takes longer than to read a small batch with it: those
    that have got no large buffers are kept for the next stream.
    """

    def __init__(self, data: Buffer, limit: int, part_cost: int = 0) -> None:
        super().__init__(limit, part_cost)
        self._data = bytes(data)
        self._decoder: Any = None
        self._reader: Any = None
        self._claimed = UNKNOWN_SIZE
        self._read_bytes = 0

    def _next(self, size: int) -> bytes:
        try:
            if self._reader is None:
                self._open()
            output: bytes = self._reader.read(size)
        except zstandard.ZstdError as error:
            raise InvalidRecordError(f"zstd: {error}") from error
        self._read_bytes += len(output)
        if not output and self._decoder is not None:
            # The decoder does not notice it if the last block is empty; some consumers do.
            if self._claimed not in (UNKNOWN_SIZE, self._read_bytes):
                raise InvalidRecordError(
                    f"zstd: the frame claims {self._claimed} bytes and holds {self._read_bytes}"
                )
            if self.cost <= _SMALL and len(_zstd_decoders) < _MOST_KEPT:
                _zstd_decoders.append(self._decoder)
            self._decoder = None
        return output

    def _open(self) -> None:
        most = self._room // self._part_cost + 2 if self._part_cost else _ANY_NUMBER
        frames = count_frames(self._data, most)
        if not frames:
            raise InvalidRecordError("zstd: the data is cut off, or no zstd")
        self._next_part(frames - 1)
        if frames == 1:
            self._claimed = content_size(self._data)
        self._decoder = _zstd_decoder()
        self._reader = self._decoder.stream_reader(self._data, read_across_frames=True)


_zstd_decoders: Final[list[Any]] = []
"""Lists are safe between threads; each decoder is taken out for the time of a stream."""


def _zstd_decoder() -> Any:
    try:
        return _zstd_decoders.pop()
    except IndexError:
        return zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)


class SnappyStream(PayloadStream):
    """Xerial's blocks, or the one block of bare snappy."""

    def __init__(self, data: Buffer, limit: int, part_cost: int = 0) -> None:
        super().__init__(limit, part_cost)
        view = memoryview(data)
        self._is_first = True
        self._blocks: Iterator[memoryview | None]
        if view[: len(XERIAL_MAGIC)].tobytes() == XERIAL_MAGIC:
            self._blocks = _xerial_blocks(view)
        else:
            self._blocks = iter((view,))

    def _next(self, _size: int) -> bytes:
        for block in self._blocks:
            if not self._is_first:
                self._next_part()
            self._is_first = False
            if block is not None:
                output = self._decompress(block)
                if output:
                    return output
        return b""

    def _decompress(self, block: memoryview) -> bytes:
        try:
            size: int = cramjam.snappy.decompress_raw_len(block)
            if size > len(block) * _SNAPPY_MAX_RATIO:
                raise InvalidRecordError(f"snappy: {len(block)} bytes cannot hold {size}")
            if size > self._room:
                raise DecompressionLimitError(self._limit)
            return bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise InvalidRecordError(f"snappy: {error}") from error


def _xerial_blocks(view: memoryview) -> Iterator[memoryview | None]:
    """Yields the blocks, and None where another stream begins."""
    pos = len(XERIAL_HEADER)
    while pos < len(view):
        if len(view) - pos < 4:
            raise InvalidRecordError("snappy: the length of a block is cut off")
        size: int = _INT32.unpack_from(view, pos)[0]
        if size == _XERIAL_MAGIC_AS_LENGTH:
            yield None
            pos += len(XERIAL_HEADER)
            continue
        pos += 4
        if not 0 <= size <= len(view) - pos:
            raise InvalidRecordError(f"snappy: a block claims {size} of {len(view) - pos} bytes")
        yield view[pos : pos + size]
        pos += size
    if pos > len(view):
        raise InvalidRecordError("snappy: the header of a stream is cut off")
