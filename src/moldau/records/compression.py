"""The codecs of record batches, in the framings Kafka's clients use.

What is here is Kafka's choice among the possible framings and levels, and a limit on what comes
out, so that a few kilobytes from a stranger cannot fill the memory. The work is cramjam's; the
other way, which has to stop in the middle, is in ``streams``.

- gzip: one member.
- snappy: the framing of xerial's snappy-java: a header, then blocks of 32 KiB, each with its
  length. Bare snappy is accepted too, as librdkafka and others have written it.
- lz4: frame format with independent blocks of 64 KiB, the only kind the Java client reads.
- zstd: one frame.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from io import BytesIO
from typing import Final

import cramjam

from moldau.config.options.compression import CompressionLevels
from moldau.records.batch import Buffer
from moldau.records.errors import DecompressionLimitError, InvalidRecordError
from moldau.records.streams import (
    XERIAL_HEADER,
    GzipStream,
    Lz4Stream,
    PayloadStream,
    SnappyStream,
    ZstdStream,
)

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
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")

_PIECE: Final = 64 * 1024


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
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


def open_stream(codec: int, data: Buffer, limit: int, part_cost: int = 0) -> PayloadStream:
    """What ``data`` holds, piece by piece and ``limit`` bytes at most; it must not change."""
    if codec == Compression.GZIP:
        return GzipStream(data, limit, part_cost)
    if codec == Compression.SNAPPY:
        return SnappyStream(data, limit, part_cost)
    if codec == Compression.LZ4:
        return Lz4Stream(data, limit, part_cost)
    if codec == Compression.ZSTD:
        return ZstdStream(data, limit, part_cost)
    raise InvalidRecordError(f"unknown compression type id {codec}")


def decompress(codec: int, data: Buffer, limit: int | None = None) -> bytes:
    """What ``data`` holds; InvalidRecordError if it is damaged or holds more than ``limit``."""
    ceiling = DEFAULT_LIMIT if limit is None else limit
    if codec == Compression.NONE:
        if len(data) > ceiling:
            raise DecompressionLimitError(ceiling)
        return bytes(data)
    stream = open_stream(codec, data, ceiling)
    first = stream.read(_PIECE)
    piece = stream.read(_PIECE) if first else b""
    if not piece:
        return first
    whole = BytesIO()  # gives its bytes away without a copy
    whole.write(first)
    while piece:
        whole.write(piece)
        piece = stream.read(_PIECE)
    return whole.getvalue()


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    # Kafka's default level stands for the fast compressor, any other number for the thorough one.
    # cramjam's lz4.compress() links its blocks, which the Java client cannot read.
    compressor = cramjam.lz4.Compressor(
        level=1 if level == _DEFAULT_LEVELS[Compression.LZ4] else level,
        content_checksum=False,
        block_linked=False,
    )
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)
