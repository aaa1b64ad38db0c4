"""The headers by which chunks of one message find each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.client.large.codec import Header

ID: Final = "moldau.chunk.id"
INDEX: Final = "moldau.chunk.index"
COUNT: Final = "moldau.chunk.count"
DIGEST: Final = "moldau.chunk.digest"

_OURS: Final = frozenset({ID, INDEX, COUNT, DIGEST})


@dataclass(frozen=True, slots=True)
class ChunkHeaders:
    message_id: bytes
    index: int
    count: int
    digest: bytes


def write_chunk_headers(chunk: ChunkHeaders) -> list[Header]:
    return [
        (ID, chunk.message_id),
        (INDEX, b"%d" % chunk.index),
        (COUNT, b"%d" % chunk.count),
        (DIGEST, chunk.digest),
    ]


def read_chunk_headers(headers: Sequence[Header]) -> ChunkHeaders | None:
    """None for a record that is no chunk."""
    if len(headers) < len(_OURS):
        return None
    ours = {name: value for name, value in headers if name in _OURS and value is not None}
    try:
        chunk = ChunkHeaders(ours[ID], int(ours[INDEX]), int(ours[COUNT]), ours[DIGEST])
    except (KeyError, ValueError):
        return None
    return chunk if 0 <= chunk.index < chunk.count else None


def without_chunk_headers(headers: Iterable[Header]) -> tuple[Header, ...]:
    return tuple(header for header in headers if header[0] not in _OURS)
