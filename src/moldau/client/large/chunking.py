"""Large values as several records under one key in one partition.

Each chunk has four headers: the message's id (16 bytes), the chunk's index and the number of chunks
(decimal), and the SHA-256 of the whole value. The first chunk also has the message's own headers.
Not for compacted topics: compaction would keep the last chunk of a key only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from moldau.client.errors import ConfigError
from moldau.client.large.assembly import Assembler, AssemblySettings
from moldau.client.large.chunk_headers import ChunkHeaders, write_chunk_headers
from moldau.client.large.codec import Convert, Header, OnDamage, Part
from moldau.machine import Machine

_DEFAULT_CHUNK: Final = 900_000
"""Below Kafka's defaults of max.request.size and max.message.bytes, with room for headers."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """``Producer(…, large_messages=Chunking())`` and the same for consumers."""

    threshold: int = _DEFAULT_CHUNK
    """Values over so many bytes are split."""
    chunk_size: int = 0
    """Bytes of value in a chunk; 0 for as many as ``threshold``."""
    buffer_memory: int = 64 * 1024 * 1024
    """Bytes that a consumer keeps of messages which are not whole yet, in all partitions."""
    timeout_ms: int = 600_000
    """A message without a new chunk for so long is given up: its producer is gone, and was never
    told that it was stored."""
    on_damage: OnDamage = "raise"
    """What a consumer does when a chunk is missing, the digest is wrong, or memory is full."""

    def __post_init__(self) -> None:
        if self.threshold < 1 or self.chunk_size < 0:
            raise ConfigError("threshold and chunk_size are positive numbers of bytes")
        if self.on_damage not in ("raise", "skip"):
            raise ConfigError(f"on_damage is 'raise' or 'skip', not {self.on_damage!r}")

    @property
    def blocking(self) -> bool:
        return False

    def encode(
        self,
        topic: str,  # noqa: ARG002
        value: bytes | None,
        headers: Sequence[Header],
        machine: Machine,
    ) -> list[Part]:
        if value is None or len(value) <= self.threshold:
            return []
        size = self.chunk_size or self.threshold
        count = -(-len(value) // size)
        message_id = machine.new_uuid().bytes
        digest = sha256(value).digest()
        view = memoryview(value)
        return [
            (
                bytes(view[index * size : (index + 1) * size]),
                [
                    *(headers if index == 0 else ()),
                    *write_chunk_headers(ChunkHeaders(message_id, index, count, digest)),
                ],
            )
            for index in range(count)
        ]

    def reader(self, convert: Convert | None = None) -> Assembler:
        limits = AssemblySettings(self.buffer_memory, self.timeout_ms / 1000, self.on_damage)
        return Assembler(limits, convert)
