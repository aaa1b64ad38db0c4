"""What brokers keep for themselves, damaged: the coordination store's files, the records of groups.

An input is four files as they are, or with checksums that are right; records of
``__consumer_offsets`` one after the other; or a batch of them. Reading gives a state or an error
that says what is wrong.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID

from tests.fuzz.target import Choices, Target
from tests.support.memory_storage import MemoryStorage

from moldau.coordination import journal, loading
from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.store import Create, Delete, Op, SetData
from moldau.coordination.tree import Tree
from moldau.coordinators.loading import _Loader
from moldau.errors import KafkaError
from moldau.groups.settings import GroupSettings
from moldau.groups.shard import GroupShard
from moldau.groups.topics import FixedTopics
from moldau.records.batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, write_crc
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.wire.errors import DecodeError

NOW_MS: Final = 1_700_000_000_000
DAY_MS: Final = 86_400_000
GOLDEN: Final = Path(__file__).parents[1] / "unit/wire/stored/data/kafka_4_3_1_group_records.txt"

FILES, SEALED_FILES, RECORDS, BATCH = range(4)
NAMES: Final = (
    journal.JOURNAL,
    journal.SNAPSHOT,
    journal.PREVIOUS_JOURNAL,
    journal.PREVIOUS_SNAPSHOT,
)
NO_VALUE: Final = 0xFFFF


class Stores(Target):
    def run(self, data: bytes) -> None:
        choices = Choices(data)
        kind = choices.byte() % 4
        if kind == RECORDS:
            check_replay(lambda shard: replay_records(shard, choices))
        elif kind == BATCH:
            check_replay(lambda shard: replay_batch(shard, choices.rest()))
        elif kind == SEALED_FILES:
            # Whoever makes checksums right can write any tree: it is read, or named as damage.
            loading.examine(MemoryStorage(dict(read_files(choices, is_sealed=True))))
        else:
            check_files(dict(read_files(choices, is_sealed=False)))

    def seeds(self) -> Iterable[bytes]:
        files = _files()
        for kept in range(1, 16):
            chosen = [file if kept >> n & 1 else None for n, file in enumerate(files)]
            yield bytes([FILES]) + b"".join(map(_file, chosen))
        yield bytes([SEALED_FILES]) + b"".join(map(_file, files))
        records = [line.split()[1:] for line in GOLDEN.read_text().splitlines()]
        pairs = [
            (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
            for key, value in records
        ]
        for key, value in pairs:
            yield bytes([RECORDS]) + _record(key, value)
        yield bytes([RECORDS]) + b"".join(_record(*pair) for pair in pairs[:20])
        stored = [Record(n, NOW_MS, *pair) for n, pair in enumerate(pairs[:8])]
        for codec in (0, 1):
            yield bytes([BATCH]) + build_batch(stored, compression=codec)
        transaction = build_batch(stored[:2], producer_id=1, producer_epoch=0, transactional=True)
        yield bytes([BATCH]) + transaction


# The coordination store


def read_files(choices: Choices, is_sealed: bool) -> Iterator[tuple[str, bytes]]:
    for name in NAMES:
        size = choices.number()
        if size != NO_VALUE:
            content = choices.take(size)
            yield name, sealed(name, content) if is_sealed else content


def sealed(name: str, content: bytes) -> bytes:
    """The file with checksums that are right, and lengths where there is one."""
    data = bytearray(content)
    if name in (journal.SNAPSHOT, journal.PREVIOUS_SNAPSHOT):
        if len(data) >= 28:
            struct.pack_into(">Q", data, 16, len(data) - 28)
            struct.pack_into(">I", data, 24, zlib.crc32(data[28:], zlib.crc32(data[8:16])))
        return bytes(data)
    if len(data) >= 20:
        struct.pack_into(">I", data, 16, zlib.crc32(data[8:16]))
    at = 20
    while (at := data.find(b"MJFR", at)) >= 0 and at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at + 4)
        payload = data[at + 12 : at + 12 + length]
        struct.pack_into(">I", data, at + 8, zlib.crc32(payload, zlib.crc32(data[at + 4 : at + 8])))
        at += 12 + len(payload)
    return bytes(data)


def check_files(files: dict[str, bytes]) -> None:
    found = loading.examine(MemoryStorage(files))
    storage = MemoryStorage(files)
    try:
        loaded = loading.load(storage)
    except StoreCorruptError:
        assert found.damage
        assert storage.files == files, "nothing was changed"
        loading.restore(storage, NOW_MS)
        loaded = loading.load(storage)
        assert loaded.tree.nodes.keys() >= found.tree.nodes.keys(), "what can be read is kept"
    else:
        assert not found.damage
    loading.open_journal(storage, loaded, NOW_MS)
    again = loading.load(storage)
    assert again.tree.nodes == loaded.tree.nodes
    assert again.tree.zxid == loaded.tree.zxid
    assert not again.torn_bytes
    again.tree.restart(NOW_MS)
    assert not again.tree.has_sessions


# Groups


def replay_records(shard: GroupShard, choices: Choices) -> None:
    while not choices.is_over:
        key = choices.take(choices.byte())
        size = choices.number()
        shard.replay(key, None if size == NO_VALUE else choices.take(size))


def replay_batch(shard: GroupShard, content: bytes) -> None:
    batch = bytearray(content)
    if len(batch) >= HEADER_SIZE:
        struct.pack_into(">i", batch, LENGTH_OFFSET, len(batch) - LOG_OVERHEAD)
        write_crc(batch, 0, len(batch))
    _Loader(shard).take(bytes(batch), 0)


def check_replay(replay: Callable[[GroupShard], None]) -> None:
    ids = (UUID(int=number) for number in count(1))
    shard = GroupShard(GroupSettings(), FixedTopics({"t": 2}), ids.__next__)
    try:
        replay(shard)
    except (DecodeError, KafkaError):
        return
    # A coordinator that could be loaded serves: time passes, groups are looked at.
    for key, value in shard.on_loaded(NOW_MS).records:
        shard.replay(key, value)
    for group in shard.list_groups():
        shard.describe_group(group.group_id, 1, 6)
        shard.consumer_group_describe(group.group_id, 2)
    for now_ms in (NOW_MS + 1000, NOW_MS + DAY_MS):
        due = shard.next_deadline()
        if due is not None and due <= now_ms:
            for key, value in shard.on_time(now_ms).records:
                shard.replay(key, value)


# Seeds


def _files() -> list[bytes]:
    tree = Tree()
    journals = [journal.encode_journal_header(0)]
    snapshots = [journal.encode_snapshot(tree)]
    rows: list[list[list[Op]]] = [
        [[Create("/a", b"1")], [Create("/b", b"2", ephemeral=True)]],
        [[SetData("/a", b"22"), Create("/a/c", b"3")], [Delete("/a/c")]],
    ]
    for number, row in enumerate(rows):
        for ops in row:
            txn = tree.commit(ops, 7, NOW_MS).txn
            assert txn is not None
            journals[-1] += journal.encode_frame([txn])
        if number == 0:
            snapshots.append(journal.encode_snapshot(tree))
            journals.append(journal.encode_journal_header(tree.zxid))
    return [journals[1], snapshots[1], journals[0], snapshots[0]]


def _file(content: bytes | None) -> bytes:
    if content is None:
        return struct.pack(">H", NO_VALUE)
    return struct.pack(">H", len(content)) + content


def _record(key: bytes, value: bytes | None) -> bytes:
    return bytes([len(key)]) + key + _file(value)
