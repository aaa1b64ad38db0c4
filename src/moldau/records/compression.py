"""The codecs of record batches, in the framings Kafka's clients use.

The work is cramjam's; what is here is Kafka's choice among the possible framings and levels, and a
limit on what comes out, so that a few kilobytes from a stranger cannot fill the memory.

- gzip: one member.
- snappy: the framing of xerial's snappy-java: a header, then blocks of 32 KiB, each with its
  length. Bare snappy is accepted too, as librdkafka and others have written it.
- lz4: frame format with independent blocks of 64 KiB, the only kind the Java client reads.
- zstd: one frame.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final

import cramjam

from moldau.config.options.compression import CompressionLevels
from moldau.records.errors import InvalidRecordError

DEFAULT_LIMIT: Final = 256 * 1024 * 1024
"""Most bytes one payload may decompress to, unless the caller says otherwise."""


class Compression(IntEnum):
    """A codec by its number in the batch attributes; ``label`` is its name in configurations."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def default_level(self) -> int | None:
        return _DEFAULT_LEVELS.get(self)

    @classmethod
    def from_label(cls, label: str) -> Compression:
        """The codec a configuration names; ValueError if there is none of this name."""
        for codec in cls:
            if codec.label == label:
                return codec
        raise ValueError(f"unknown compression type {label!r}")


_DEFAULT_LEVELS: Final[dict[int, int]] = {
    Compression.GZIP: CompressionLevels.compression_gzip_level.default,
    Compression.LZ4: CompressionLevels.compression_lz4_level.default,
    Compression.ZSTD: CompressionLevels.compression_zstd_level.default,
}

_GZIP_OWN_CHOICE: Final = 6
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
"""Magic, version, and the oldest version that can read it."""
_XERIAL_MAGIC_AS_LENGTH: Final = struct.unpack_from(">i", _XERIAL_MAGIC)[0]
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 64
"""A snappy copy element makes at most 64 bytes out of two."""

_INT32: Final = struct.Struct(">i")
_GZIP_SIZE: Final = struct.Struct("<I")

_FIRST_GUESS: Final = 16
_GROWTH: Final = 8
_TRUSTED_RATIO: Final = 1024
_OUTPUT_FULL: Final = "failed to write whole buffer"
"""How cramjam says that the output did not fit into the buffer it was given."""


def compress(codec: int, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """``data`` under ``codec``, at a level as in Kafka's ``compression.*.level``."""
    if codec == Compression.NONE:
        return bytes(data)
    if level is None:
        level = _DEFAULT_LEVELS.get(codec)
    if codec == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, _GZIP_OWN_CHOICE if level == -1 else level))
    if codec == Compression.SNAPPY:
        return _compress_xerial(data)
    if codec == Compression.LZ4:
        return _compress_lz4(data, level)
    if codec == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    raise InvalidRecordError(f"unknown compression type id {codec}")


def decompress(
    codec: int,
    data: bytes | bytearray | memoryview,
    limit: int | None = None,
    *,
    expected: int = 0,
) -> bytes:
    """What ``data`` holds; InvalidRecordError if it is damaged or holds more than ``limit``.

    Who knows about how many bytes to expect spares a buffer for the worst.
    """
    ceiling = DEFAULT_LIMIT if limit is None else limit
    if codec == Compression.NONE:
        if len(data) > ceiling:
            raise _too_large(ceiling)
        return bytes(data)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(data, ceiling)
    if codec == Compression.GZIP:
        return _decompress_bounded(cramjam.gzip, "gzip", data, ceiling, 0)
    if codec == Compression.LZ4:
        return _decompress_bounded(cramjam.lz4, "lz4", data, ceiling, expected)
    if codec == Compression.ZSTD:
        return _decompress_bounded(cramjam.zstd, "zstd", data, ceiling, expected)
    raise InvalidRecordError(f"unknown compression type id {codec}")


def _compress_lz4(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    # Kafka's default level stands for the fast compressor, any other number for the thorough one.
    # cramjam's lz4.compress() links its blocks, which the Java client cannot read.
    compressor = cramjam.lz4.Compressor(
        level=1 if level == _DEFAULT_LEVELS[Compression.LZ4] else level,
        content_checksum=False,
        block_linked=False,
    )
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_xerial(data: bytes | bytearray | memoryview) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: bytes | bytearray | memoryview, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)].tobytes() != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit)
    parts: list[bytes] = []
    room = limit
    pos = len(_XERIAL_HEADER)
    while pos < len(view):
        if len(view) - pos < 4:
            raise InvalidRecordError("snappy: the length of a block is cut off")
        size: int = _INT32.unpack_from(view, pos)[0]
        if size == _XERIAL_MAGIC_AS_LENGTH:  # another stream begins
            pos += len(_XERIAL_HEADER)
            continue
        pos += 4
        if not 0 <= size <= len(view) - pos:
            raise InvalidRecordError(f"snappy: a block claims {size} of {len(view) - pos} bytes")
        part = _decompress_snappy_block(view[pos : pos + size], room)
        room -= len(part)
        parts.append(part)
        pos += size
    if pos > len(view):
        raise InvalidRecordError("snappy: the header of a stream is cut off")
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_MAX_RATIO:
            raise InvalidRecordError(f"snappy: {len(block)} bytes cannot hold {size}")
        if size > limit:
            raise _too_large(limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise InvalidRecordError(f"snappy: {error}") from error


def _decompress_bounded(
    codec: Any, name: str, data: bytes | bytearray | memoryview, limit: int, expected: int
) -> bytes:
    """Decompresses into a buffer of the probable size, a larger one if need be, up to the limit.

    Nothing the data says about its size is believed beyond what its length makes plausible.
    """
    length = len(data)
    guess = _gzip_size(data) if codec is cramjam.gzip else expected or length * _FIRST_GUESS
    capacity = min(max(min(guess, length * _TRUSTED_RATIO), 512), limit)
    while True:
        output = bytearray(capacity)
        try:
            size: int = codec.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise InvalidRecordError(f"{name}: {error}") from error
            if capacity >= limit:
                raise _too_large(limit) from None
            capacity = min(capacity * _GROWTH, limit)
        else:
            return bytes(memoryview(output)[:size])


def _gzip_size(data: bytes | bytearray | memoryview) -> int:
    """The size a gzip member ends with: exact, unless it is damaged or not the only one."""
    if len(data) < _GZIP_SIZE.size:
        return 0
    size: int = _GZIP_SIZE.unpack_from(data, len(data) - _GZIP_SIZE.size)[0]
    return size


def _too_large(limit: int) -> InvalidRecordError:
    return InvalidRecordError(f"the records decompress to more than {limit} bytes")
