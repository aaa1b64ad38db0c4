"""The encoded records of batches, one after the other."""

from __future__ import annotations

from moldau.records.batch import COMPRESSION_MASK, HEADER_SIZE, BatchHeader
from moldau.records.compression import decompress


class Payloads:
    """Decompresses; the batches of a log are much alike, so the last one says what to expect."""

    def __init__(self) -> None:
        self._ratio = 0.0

    def read(self, header: BatchHeader, batch: memoryview) -> bytes:
        codec = header.attributes & COMPRESSION_MASK
        compressed = batch[HEADER_SIZE:]
        if not codec:
            return bytes(compressed)
        size = len(compressed)
        payload = decompress(codec, compressed, expected=int(size * self._ratio))
        self._ratio = max(1.25 * len(payload) / size, 0.9 * self._ratio)
        return payload
