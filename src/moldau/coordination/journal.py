"""The journal and the snapshot, as bytes.

``coordination.snapshot`` holds the whole tree as of one transaction, ``coordination.journal`` what
came after it. They are plain files, which Kafka's own tools overlook in a log directory. When a
snapshot is written, the one before it and its journal stay, as ``….previous``: together they give
the same tree, should the snapshot turn out to be damaged.

    snapshot:  "MOLDAUS1" zxid:u64 length:u64 crc:u32 msgpack(list of nodes)
               "MOLDAUS2" the same with msgpack([list of nodes, list of sessions]), if some are kept
    journal:   "MOLDAUJ1" base zxid:u64 crc:u32, then frames
    frame:     "MJFR" length:u32 crc:u32 msgpack(list of transactions)

A frame is what one sync made durable (a group commit). Only the last one can be torn by a crash,
because the next is written after the sync of the one before. So a bad frame with nothing readable
behind it is a torn tail, as far as anybody can tell. A bad frame with a good one behind it is
damage to acknowledged data. Behind the last frame there are zeros: room that is reserved, so that a
full disk can still be put in order.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.sessions import Session
from moldau.coordination.tree import Tree, Txn, ZNode

JOURNAL = "coordination.journal"
SNAPSHOT = "coordination.snapshot"
PREVIOUS_JOURNAL = "coordination.journal.previous"
PREVIOUS_SNAPSHOT = "coordination.snapshot.previous"

_SNAPSHOT_MAGIC = b"MOLDAUS1"
_SNAPSHOT_WITH_SESSIONS_MAGIC = b"MOLDAUS2"
_JOURNAL_MAGIC = b"MOLDAUJ1"
_FRAME_MARK = b"MJFR"
_SNAPSHOT_HEADER = struct.Struct(">8sQQI")
_JOURNAL_HEADER = struct.Struct(">8sQI")
_FRAME_HEADER = struct.Struct(">4sII")
_LENGTH = struct.Struct(">I")

JOURNAL_HEADER_SIZE = _JOURNAL_HEADER.size

_decode_nodes = msgspec.msgpack.Decoder(list[ZNode]).decode
_decode_nodes_and_sessions = msgspec.msgpack.Decoder(tuple[list[ZNode], list[Session]]).decode
_decode_txns = msgspec.msgpack.Decoder(list[Txn]).decode
_encode = msgspec.msgpack.Encoder().encode


class Frames(NamedTuple):
    """What can be read of a journal."""

    base_zxid: int
    txns: list[Txn]
    size: int
    """Of the part that is good."""
    torn_bytes: int
    """Behind it, up to the last one that is not zero."""
    damage: str | None
    """What is wrong with the rest, if acknowledged changes are in it."""


def encode_snapshot(tree: Tree) -> bytes:
    nodes = list(tree.nodes.values())
    if tree.sessions:
        magic = _SNAPSHOT_WITH_SESSIONS_MAGIC
        payload = _encode((nodes, list(tree.sessions.values())))
    else:
        magic = _SNAPSHOT_MAGIC
        payload = _encode(nodes)
    crc = _snapshot_crc(tree.zxid, payload)
    return _SNAPSHOT_HEADER.pack(magic, tree.zxid, len(payload), crc) + payload


def _snapshot_crc(zxid: int, payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(zxid.to_bytes(8, "big")))


def check_snapshot(data: bytes) -> tuple[int, memoryview]:
    """Returns the last transaction and the nodes of a snapshot that is whole."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise StoreCorruptError(f"the snapshot ends after {len(data)} bytes")
    magic, zxid, length, crc = _SNAPSHOT_HEADER.unpack_from(data)
    payload = memoryview(data)[_SNAPSHOT_HEADER.size :]
    if magic not in (_SNAPSHOT_MAGIC, _SNAPSHOT_WITH_SESSIONS_MAGIC):
        raise StoreCorruptError("the snapshot does not begin like one")
    if length != len(payload):
        raise StoreCorruptError(f"the snapshot holds {len(payload)} of {length} bytes")
    if _snapshot_crc(zxid, payload) != crc:
        raise StoreCorruptError("the snapshot's checksum does not match")
    return zxid, payload


def decode_snapshot(data: bytes) -> Tree:
    zxid, payload = check_snapshot(data)
    try:
        if data.startswith(_SNAPSHOT_WITH_SESSIONS_MAGIC):
            return Tree.restore(zxid, *_decode_nodes_and_sessions(payload))
        return Tree.restore(zxid, _decode_nodes(payload))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorruptError(f"the snapshot cannot be decoded: {error}") from error


def encode_journal_header(base_zxid: int) -> bytes:
    crc = zlib.crc32(base_zxid.to_bytes(8, "big"))
    return _JOURNAL_HEADER.pack(_JOURNAL_MAGIC, base_zxid, crc)


def encode_frame(txns: Sequence[Txn]) -> bytes:
    payload = _encode(txns)
    crc = zlib.crc32(payload, zlib.crc32(_LENGTH.pack(len(payload))))
    return _FRAME_HEADER.pack(_FRAME_MARK, len(payload), crc) + payload


def _frame_end(data: bytes, position: int) -> int:
    """Returns where the frame at ``position`` ends, or -1 if there is no whole, undamaged frame."""
    start = position + _FRAME_HEADER.size
    if start > len(data):
        return -1
    mark, length, crc = _FRAME_HEADER.unpack_from(data, position)
    end: int = start + length
    if mark != _FRAME_MARK or end > len(data):
        return -1
    payload = memoryview(data)[start:end]
    return end if zlib.crc32(payload, zlib.crc32(_LENGTH.pack(length))) == crc else -1


def read_frames(data: bytes) -> Frames:
    """Reads as far as everything is good; StoreCorruptError if not even the header is."""
    if len(data) < JOURNAL_HEADER_SIZE:
        raise StoreCorruptError(f"the journal ends inside its header, after {len(data)} bytes")
    magic, base_zxid, crc = _JOURNAL_HEADER.unpack_from(data)
    if magic != _JOURNAL_MAGIC or zlib.crc32(base_zxid.to_bytes(8, "big")) != crc:
        raise StoreCorruptError("the journal's header is damaged")
    txns: list[Txn] = []
    position = JOURNAL_HEADER_SIZE
    written = len(data.rstrip(b"\0"))
    damage = None
    while position < written:
        end = _frame_end(data, position)
        if end < 0:
            damage = _damage_at(data, position)
            break
        try:
            txns += _decode_txns(memoryview(data)[position + _FRAME_HEADER.size : end])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            damage = f"the journal's frame at byte {position} cannot be decoded: {error}"
            break
        position = end
    return Frames(base_zxid, txns, position, max(written - position, 0), damage)


def _damage_at(data: bytes, position: int) -> str | None:
    """Returns what a bad frame means, None for a torn tail."""
    candidate = data.find(_FRAME_MARK, position + 1)
    while candidate >= 0:
        if _frame_end(data, candidate) >= 0:
            return (
                f"the journal is damaged at byte {position}: acknowledged changes follow at byte "
                f"{candidate}"
            )
        candidate = data.find(_FRAME_MARK, candidate + 1)
    return None
