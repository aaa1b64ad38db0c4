"""Many nodes in one request: ZooKeeper's multi-read (3.6 and later), which kazoo does not have.

With ten thousand partitions it is the difference between seconds and tenths of a second until a new
controller knows what there is: kazoo's thread takes about as long for a request of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kazoo.protocol.serialization import (
    GetData,
    MultiHeader,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat

from moldau.coordination.kazoo_answers import stat
from moldau.coordination.store import Stat

READS_AT_ONCE: Final = 200
"""Nodes of one request: far from the megabyte that it may have."""

_ERROR: Final = -1
_NO_NODE: Final = -101


class ReadFailedError(Exception):
    """One of the nodes cannot be read although it may be there."""


class MultiRead:
    """A request as kazoo's connection sends it; ``chroot`` stands before every path."""

    type = 22

    def __init__(self, chroot: str, paths: Sequence[str]) -> None:
        self._paths = [chroot + path if path != "/" else chroot or "/" for path in paths]

    def serialize(self) -> bytes:
        parts = []
        for path in self._paths:
            parts.append(MultiHeader(GetData.type, False, -1).serialize())
            parts.append(bytes(GetData(path, None).serialize()))
        return b"".join([*parts, multiheader_struct.pack(-1, True, -1)])

    def deserialize(self, data: bytes, offset: int) -> list[tuple[bytes, Stat] | None]:
        """Returns what kazoo hands on; None where there is no node."""
        found: list[tuple[bytes, Stat] | None] = []
        while True:
            header: Any
            header, offset = MultiHeader.deserialize(data, offset)
            if header.done:
                return found
            if header.type == _ERROR:
                (code,) = int_struct.unpack_from(data, offset)
                offset += int_struct.size
                if code != _NO_NODE:
                    raise ReadFailedError(f"error {code}")
                found.append(None)
            else:
                content, offset = read_buffer(data, offset)
                node = ZnodeStat._make(stat_struct.unpack_from(data, offset))
                offset += stat_struct.size
                found.append((bytes(content or b""), stat(node)))
