"""The cleaner on a disk that dies under it: at every single file operation, in both ways.

A killed process loses nothing that it has written; a power cut loses what was not synced. After
either the broker starts again, and the log must say the same as before: the last value of every
key, nothing twice, nothing altered, transactions and producers as they were. Then it is cleaned
again, to the end.
"""

from __future__ import annotations

import copy
import errno
import random
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.support.machines import loop_machine
from tests.support.partition_log import read_batches, verified

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.errors import KafkaError
from moldau.log import AppendOrigin, LogManager, PartitionLog
from moldau.model import TopicPartition
from moldau.records.batch import iter_headers
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.reader import read_records
from moldau.records.record import Record
from moldau.testing.clock import ManualClock
from moldau.testing.disk import MemoryDisk

PARTITION = TopicPartition("table", 0)
TOPIC_ID = uuid4()
START_MS = 1_700_000_000_000
RETENTION_MS = 1000
COMPACT = TopicConfig(
    segment_bytes=900,
    index_interval_bytes=100,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=RETENTION_MS,
)
CODECS = (Compression.NONE, Compression.LZ4, Compression.GZIP)

Machine = tuple[random.Random, MemoryDisk, int, dict[int, Record], dict[int, int]]
STOPPED: dict[int, Machine] = {}
"""Where the first part of the way to a log to be cleaned ended, by seed: it is gone once."""


class Table:
    """A compacted partition, what was written to it, and the machine it is on."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.disk = MemoryDisk(self.rng)
        self.now_ms = START_MS
        self.config = COMPACT
        self.written: dict[int, Record] = {}
        self.sequences = dict.fromkeys((1, 2, 3), 0)

    async def start(self) -> None:
        self.disk.locks.clear()
        self.manager = LogManager(
            loop_machine(self.disk, ManualClock(self.now_ms)),
            ["/data"],
            BrokerConfig({"log.cleaner.dedupe.buffer.size": "2000000"}),
        )
        self.manager.use_high_watermarks(dict, lambda _: self.log.log_end_offset)
        await self.manager.start(lambda _: self.config)
        self.log: PartitionLog = self.manager.get_or_create(PARTITION, TOPIC_ID, self.config)

    @property
    def machine(self) -> Machine:
        """Everything that is there while no broker runs."""
        return self.rng, self.disk, self.now_ms, self.written, self.sequences

    @machine.setter
    def machine(self, machine: Machine) -> None:
        self.rng, self.disk, self.now_ms, self.written, self.sequences = machine

    # Writing -------------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        rng = self.rng
        return [
            Record(
                0,
                self.now_ms + rng.randrange(50),
                b"key %d" % rng.randrange(9),
                None if rng.random() < 0.25 else b"%d" % rng.randrange(10**9),
            )
            for _ in range(rng.randrange(1, 5))
        ]

    def append(self, producer_id: int = -1, *, transactional: bool = False) -> None:
        records = self.records()
        batch = build_batch(
            records,
            compression=self.rng.choice(CODECS),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=self.sequences.get(producer_id, -1),
            transactional=transactional,
        )
        if transactional:
            verified(self.log, producer_id)
        info = self.log.append_as_leader(memoryview(batch), 0, self.now_ms)
        assert not info.duplicate
        if producer_id in self.sequences:
            self.sequences[producer_id] += len(records)
        for offset, record in enumerate(records, info.first_offset):
            self.written[offset] = Record(offset, record.timestamp, record.key, record.value)

    def end_transaction(self, producer_id: int, kind: ControlType) -> None:
        marker = build_end_txn_marker(
            kind,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.now_ms,
        )
        self.log.append_as_leader(
            memoryview(marker), 0, self.now_ms, origin=AppendOrigin.COORDINATOR
        )

    def write(self, steps: int) -> None:
        for _ in range(steps):
            self.append(self.rng.choice((-1, -1, 1)))
            if self.rng.random() < 0.3:
                producer_id = self.rng.choice((2, 3))
                for _ in range(self.rng.randrange(1, 3)):
                    self.append(producer_id, transactional=True)
                    self.append()
                kind = self.rng.choice((ControlType.COMMIT, ControlType.ABORT))
                self.end_transaction(producer_id, kind)
            self.now_ms += self.rng.randrange(100)

    async def prepare(self) -> None:
        """A log with a cleaned part, old tombstones and markers in it, and a dirty part."""
        if self.seed not in STOPPED:
            await self.start()
            self.write(12)
            await self.manager.cleaner.clean_all()
            self.now_ms += 2 * RETENTION_MS
            self.write(8)
            await self.manager.flush(self.log)
            self.manager.cleaner.high_watermark = lambda _: self.log.log_end_offset
            await self.manager.shutdown()
            STOPPED[self.seed] = copy.deepcopy(self.machine)
        self.machine = copy.deepcopy(STOPPED[self.seed])
        await self.start()
        self.write(3)
        await self.manager.flush(self.log)
        self.expected = Content(self.log)

    # Dying ---------------------------------------------------------------------------------------

    async def clean_until(self, operations: int) -> bool:
        """Clean on a disk that fails after so many operations; whether it came to that."""
        before = self.disk.operations.total()
        self.disk.fail(errno.EIO, after=operations)
        await self.manager.cleaner.clean_all()
        met = self.disk.operations.total() - before > operations
        self.disk.heal()
        return met

    async def start_until(self, operations: int) -> None:
        """Start on a disk that fails after so many operations."""
        self.disk.fail(errno.EIO, after=operations)
        with suppress(OSError, KafkaError):
            await self.start()
        self.disk.heal()

    async def restart(self, *, power_cut: bool) -> None:
        if power_cut:
            self.disk = self.disk.power_cut()
        await self.start()


class Content:
    """What a reader finds in a log."""

    def __init__(self, log: PartitionLog) -> None:
        data = read_batches(log, max_bytes=700)
        self.end = log.log_end_offset
        self.batches = [header for _, header in iter_headers(data)]
        self.records = [
            record
            for position, header in iter_headers(data)
            if not header.is_control
            for record in read_records(data, position)
        ]
        aborted = {
            (producer_id, first)
            for producer_id, first in log.aborted_transactions(0, log.log_end_offset)
        }
        self.values = last_values(self.records)
        self.committed = last_values(committed_records(data, aborted))
        self.producers = {
            (entry.producer_id, entry.epoch, entry.last_sequence, entry.txn_first_offset)
            for entry in log.producers.producers.values()
        }


def last_values(records: list[Record]) -> dict[bytes | None, bytes]:
    values = {record.key: record.value for record in records}
    return {key: value for key, value in values.items() if value is not None}


def committed_records(data: bytes, aborted: set[tuple[int, int]]) -> list[Record]:
    """As a client with ``read_committed`` sees them: what the broker lists as aborted is skipped
    from its first offset to the marker.
    """
    coming = sorted(aborted, key=lambda one: one[1])
    skipped: set[int] = set()
    found = []
    for position, header in iter_headers(data):
        while coming and coming[0][1] <= header.last_offset:
            skipped.add(coming.pop(0)[0])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found += read_records(data, position)
    return found


def check(table: Table) -> None:
    """The log says what it said before."""
    found, expected = Content(table.log), table.expected
    assert found.end == expected.end
    assert found.committed == expected.committed
    assert found.producers == expected.producers
    offsets = [record.offset for record in found.records]
    assert offsets == sorted(set(offsets))
    for record in found.records:
        assert record == table.written[record.offset]
    for record in found.records[::5]:
        where = table.log.offset_for_timestamp(record.timestamp)
        assert where is not None
        assert where.offset == next(
            one.offset for one in found.records if one.timestamp >= record.timestamp
        )


async def check_cleaned(table: Table) -> None:
    """Cleaned again it is what one cleaning without a crash leaves: each key once."""
    await table.manager.cleaner.clean_all()
    check(table)
    cleaned = table.manager.cleaner.checkpoints.get("/data", PARTITION)
    assert cleaned == table.log.segments[-1].base_offset
    keys = [r.key for r in Content(table.log).records if r.offset < cleaned]
    assert len(keys) == len(set(keys))
    names = table.disk.listdir(table.log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    await check_later(table)


async def check_later(table: Table) -> None:
    """The log goes on, and is cleaned again when all tombstones and markers have had their time.
    What is left of batches is still enough to know every producer and transaction from.
    """
    table.write(2)
    table.now_ms += 2 * RETENTION_MS
    await table.manager.flush(table.log)
    await table.start()
    table.log.roll(table.now_ms)
    table.append(1)
    await table.manager.flush(table.log)
    table.expected = Content(table.log)
    await table.manager.cleaner.clean_all()
    for name in table.disk.listdir(table.log.directory):
        if name.endswith(".snapshot"):
            table.disk.remove(f"{table.log.directory}/{name}")
    await table.start()
    check(table)


async def survive(seed: int, operations: int, *, power_cut: bool) -> bool:
    table = Table(seed)
    await table.prepare()
    met = await table.clean_until(operations)
    await table.restart(power_cut=power_cut)
    check(table)
    await check_cleaned(table)
    return met


async def survive_twice(seed: int, operations: int) -> bool:
    """As ``survive``, and the start after it dies as well, somewhere."""
    table = Table(seed)
    await table.prepare()
    met = await table.clean_until(operations)
    table.disk = table.disk.power_cut()
    await table.start_until(table.rng.randrange(80))
    await table.restart(power_cut=True)
    check(table)
    # The lights go out right after a good start, too: nothing of it may need to be flushed.
    await table.restart(power_cut=True)
    check(table)
    await check_cleaned(table)
    return met


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power-cut"])
async def test_death_at_every_operation_of_a_cleaning(power_cut: bool) -> None:
    operations = 0
    while await survive(7, operations, power_cut=power_cut):
        operations += 1
    assert operations > 50


async def test_death_in_a_start_after_death_in_a_cleaning() -> None:
    operations = 0
    while await survive_twice(11, operations):
        operations += 1
    assert operations > 50


async def test_a_topic_that_is_not_compacted_any_more_keeps_what_follows_a_gap() -> None:
    """Its recovery takes gaps in offsets for lost data, but not those that compaction left."""
    table = Table(3)
    # Without index entries recovery begins at the start of a segment, in front of the gaps.
    table.config = replace(COMPACT, index_interval_bytes=10**6)
    await table.start()
    table.write(30)
    table.expected = Content(table.log)
    await table.manager.cleaner.clean_all()
    offsets = [header.base_offset for header in Content(table.log).batches]
    assert len(offsets) < offsets[-1] - offsets[0]
    table.config = TopicConfig(segment_bytes=900, cleanup_policy=frozenset({"delete"}))
    await table.restart(power_cut=False)
    check(table)
