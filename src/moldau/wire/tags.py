"""Tagged sections (KIP-482) of the hand-written codecs, and what KIP-951 puts there."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from moldau.model import Node
from moldau.wire.errors import DecodeError
from moldau.wire.primitives import (
    check_count,
    compact_string,
    read_compact_text,
    read_tag_count,
    read_uvarint,
    skip_tags,
    uvarint,
)

NO_TAGS: Final = b"\x00"
_INT32: Final = Struct(">i")
_TWO_INT32: Final = Struct(">ii")
_LEADER: Final = Struct(">iiB")
_SMALLEST_ENDPOINT: Final = 11


def tagged_section(fields: Sequence[tuple[int, bytes]]) -> bytes:
    """A section of these (tag, encoded value) pairs, which must be in the order of tags."""
    parts = [uvarint(len(fields))]
    for tag, value in fields:
        parts += (uvarint(tag), uvarint(len(value)), value)
    return b"".join(parts)


def read_tags(buf: memoryview, pos: int) -> tuple[dict[int, memoryview], int]:
    """The values of a section by tag, and the position after it."""
    count, pos = read_tag_count(buf, pos)
    fields: dict[int, memoryview] = {}
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        end = pos + size
        if end > len(buf):
            raise DecodeError("tagged field reaches past the end of the message")
        fields[tag] = buf[pos:end]
        pos = end
    return fields, pos


def leader_value(leader: tuple[int, int]) -> bytes:
    """(leader id, leader epoch) as a tagged value."""
    return _LEADER.pack(leader[0], leader[1], 0)


def read_leader(value: memoryview | None) -> tuple[int, int] | None:
    """(leader id, leader epoch), or None if the tag was not sent."""
    if value is None:
        return None
    leader_id, leader_epoch = _TWO_INT32.unpack_from(value, 0)
    return leader_id, leader_epoch


def endpoints_value(nodes: Sequence[Node]) -> bytes:
    """Where the leaders named in an answer listen, as a tagged value."""
    parts = [uvarint(len(nodes) + 1)]
    for node in nodes:
        parts += (
            _INT32.pack(node.id),
            compact_string(node.host),
            _INT32.pack(node.port),
            compact_string(node.rack),
            NO_TAGS,
        )
    return b"".join(parts)


def read_endpoints(value: memoryview | None) -> list[Node]:
    """The nodes of a tagged value; none if the tag was not sent."""
    nodes: list[Node] = []
    if value is None:
        return nodes
    count, pos = read_uvarint(value, 0)
    check_count(count - 1, _SMALLEST_ENDPOINT, len(value) - pos)
    for _ in range(count - 1):
        node_id = _INT32.unpack_from(value, pos)[0]
        host, pos = read_compact_text(value, pos + 4)
        if host is None:
            raise DecodeError("null where a host name must be")
        port = _INT32.unpack_from(value, pos)[0]
        rack, pos = read_compact_text(value, pos + 4)
        pos = skip_tags(value, pos)
        nodes.append(Node(node_id, host, port, rack))
    return nodes
