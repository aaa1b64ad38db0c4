"""A log over a disk that loses, tears and reorders what was not synced, against a plain list.

Whatever happens, what was flushed is there, what is served is exactly what was appended, offsets
follow each other, and indexes, epochs and producer state say the same as the batches themselves.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.partition_log import read_batches, verified

from moldau.config.values.topic import TopicConfig
from moldau.log import AppendOrigin
from moldau.log.partition.flush_job import FlushJob
from moldau.log.partition.producer_state import ProducerState, apply_batch
from moldau.log.recovery.opening import load_log
from moldau.log.segment import index_file
from moldau.model import TopicPartition
from moldau.records.batch import BatchHeader, iter_headers, read_header
from moldau.records.builder import build_batch
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.reader import read_records
from moldau.records.record import Record
from moldau.testing.disk import MemoryDisk

DIRECTORY = "/data/t-0"
PARTITION = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


@dataclass
class Expected:
    """What the log should hold."""

    batches: list[bytes] = field(default_factory=list)
    durable_end: int = 0
    start: int = 0

    @property
    def end(self) -> int:
        end = read_header(self.batches[-1]).next_offset if self.batches else 0
        return max(end, self.start)  # a log whose end was lost begins again at its start

    def cut(self, end: int) -> None:
        self.batches = [batch for batch in self.batches if read_header(batch).next_offset <= end]


class LogMachine(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 2**32),
        segment_bytes=st.integers(800, 4000),
        index_interval=st.integers(0, 300),
        index_bytes=st.sampled_from([48, 120, 10_000]),
        in_memory=st.sampled_from([24, 4096]),
    )
    def begin(
        self, seed: int, segment_bytes: int, index_interval: int, index_bytes: int, in_memory: int
    ) -> None:
        index_file.IN_MEMORY_BYTES = in_memory  # type: ignore[misc]
        self.disk = MemoryDisk(random.Random(seed))
        self.disk.makedirs(DIRECTORY)
        self.disk.sync_dir("/")
        self.disk.sync_dir("/data")
        self.config = TopicConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval,
            segment_index_bytes=index_bytes,
        )
        self.expected = Expected()
        self.epoch = 0
        self.time = NOW_MS
        self.sequences: dict[int, int] = {}
        self.checkpointed = 0
        self.checkpointed_start = 0
        self.open(clean=False)

    def teardown(self) -> None:
        index_file.IN_MEMORY_BYTES = 4096  # type: ignore[misc]

    def open(self, *, clean: bool) -> None:
        self.log = load_log(
            self.disk,
            DIRECTORY,
            PARTITION,
            self.config,
            now_ms=NOW_MS,
            clean=clean,
            recovery_point=self.checkpointed,
            log_start_offset=self.checkpointed_start,
        )
        # A power cut may bring segments back that retention had removed.
        assert self.log.log_start_offset <= self.expected.start
        self.expected.start = self.log.log_start_offset
        if self.expected.start > 0:
            self.ask_for_sequences()  # what a producer wrote may be deleted, and it with it

    # Appending and so on -------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 150),
        step=st.integers(-3, 5),
        producer=st.sampled_from([-1, -1, 1, 2]),
    )
    def append(self, count: int, size: int, step: int, producer: int) -> None:
        self.time += step
        transactional = producer == 2
        sequence = self.sequences.get(producer, 0)
        batch = build_batch(
            [Record(0, self.time + i, b"k", bytes([i]) * size) for i in range(count)],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
            transactional=transactional,
        )
        if transactional:
            verified(self.log, producer)
        info = self.log.append_as_leader(memoryview(batch), self.epoch, self.time)
        assert info.first_offset == self.expected.end
        assert info.last_offset == self.expected.end + count - 1
        self.expected.batches.append(bytes(batch))
        if producer >= 0:
            self.sequences[producer] = sequence + count

    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        marker = build_end_txn_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=2,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.time,
        )
        self.log.append_as_leader(
            memoryview(marker), self.epoch, self.time, origin=AppendOrigin.COORDINATOR
        )
        self.expected.batches.append(bytes(marker))

    @rule(data=st.data())
    def append_twice(self, data: st.DataObject) -> None:
        """A retried batch is answered with its first offset and not written again."""
        mine = [b for b in self.expected.batches if read_header(b).producer_id == 1]
        if not mine or read_header(mine[-1]).base_offset < self.log.log_start_offset:
            return
        header = read_header(mine[-1])
        again = bytearray(mine[-1])
        again[0:8] = bytes(8)
        info = self.log.append_as_leader(memoryview(again), self.epoch, self.time)
        assert info.duplicate
        assert (info.first_offset, info.last_offset) == (header.base_offset, header.last_offset)

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.assign_epoch_start_offset(self.epoch, self.log.log_end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.finish(self.log.durability.prepare_flush())

    @rule(part=st.floats(0, 1))
    def flush_in_part(self, part: float) -> None:
        self.finish(self.log.durability.prepare_flush(int(self.log.log_end_offset * part)))

    @rule(count=st.integers(1, 3))
    def flush_while_appending(self, count: int) -> None:
        job = self.log.durability.prepare_flush()
        for _ in range(count):
            self.append(1, 50, 1, -1)
        self.finish(job)

    def finish(self, job: FlushJob | None) -> None:
        if job is not None:
            job.run()
            self.log.durability.complete_flush(job, NOW_MS)
        self.expected.durable_end = self.log.recovery_point

    @rule()
    def checkpoint(self) -> None:
        self.checkpointed = self.log.recovery_point

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        start = self.log.log_start_offset
        offset = start + int((self.log.log_end_offset - start) * part)
        self.log.increment_log_start_offset(offset)
        self.expected.start = self.checkpointed_start = self.log.log_start_offset

    @rule(part=st.floats(0, 1))
    def retain(self, part: float) -> None:
        """Retention by size. Its new start is the first segment's and is not written down."""
        self.log.config = replace(self.config, retention_bytes=int(self.log.size * part))
        self.log.delete_old_segments(self.log.log_end_offset, self.time, at_most=100)
        self.log.config = self.config
        self.expected.start = self.log.log_start_offset

    @rule(part=st.floats(0.5, 1))
    def truncate(self, part: float) -> None:
        start = self.log.log_start_offset
        offset = start + int((self.log.log_end_offset - start) * part)
        if self.log.truncate_to(offset, NOW_MS):
            self.finish(self.log.durability.prepare_flush())
            self.checkpointed = self.log.recovery_point
            self.expected.start = self.log.log_start_offset
            self.checkpointed_start = min(self.checkpointed_start, self.expected.start)
            self.expected.durable_end = min(self.expected.durable_end, self.log.log_end_offset)
            self.lost_the_end()

    def lost_the_end(self) -> None:
        """The log is shorter than it was; producers go on from what is left."""
        self.expected.cut(self.log.log_end_offset)
        assert self.log.log_end_offset == self.expected.end
        self.ask_for_sequences()

    def ask_for_sequences(self) -> None:
        self.sequences = {
            entry.producer_id: entry.last_sequence + 1
            for entry in self.log.producers.producers.values()
        }

    # The end of the process ----------------------------------------------------------------------

    @rule()
    def kill(self) -> None:
        """The process dies, the machine lives: nothing is lost."""
        self.log.close()
        self.open(clean=False)
        assert self.log.log_end_offset == self.expected.end

    @rule()
    def power_cut(self) -> None:
        self.log.close()
        self.disk = self.disk.power_cut()
        self.open(clean=False)
        assert self.log.log_end_offset >= self.expected.durable_end
        self.lost_the_end()
        self.check_everything()

    @rule()
    def restart(self) -> None:
        job = self.log.prepare_close()
        self.finish(job)
        self.log.close()
        self.checkpointed = self.log.recovery_point
        if self.disk.rng.random() < 0.5:
            self.disk = self.disk.power_cut()
        self.open(clean=True)
        assert self.log.log_end_offset == self.expected.end
        self.check_everything()

    # What must hold ------------------------------------------------------------------------------

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        assert log.size == sum(segment.size for segment in log.segments)

    @rule()
    def check_everything(self) -> None:
        log = self.log
        start = log.log_start_offset
        batches = [b for b in self.expected.batches if read_header(b).last_offset >= start]
        assert read_batches(log, max_bytes=700) == b"".join(batches)
        headers = [read_header(batch) for batch in batches]
        self.check_reads(headers)
        self.check_times(batches)
        for header in headers:
            epoch = log.leader_epochs.epoch_for_offset(max(header.base_offset, start))
            assert epoch == header.partition_leader_epoch
        self.check_transactions(batches)

    def check_reads(self, headers: list[BatchHeader]) -> None:
        log = self.log
        for number, header in enumerate(headers):
            offset = max(header.last_offset - 1, header.base_offset, log.log_start_offset)
            found = log.read(offset, 1, log.log_end_offset)
            assert found is not None
            assert read_header(found.read()).base_offset == header.base_offset
            assert found.size == header.size
            if offset < header.last_offset:
                # The end of what may be seen lies inside this batch: it is not served.
                below = log.read(log.log_start_offset, 10**6, header.last_offset)
                if below is not None:
                    ends = [h.next_offset for _, h in iter_headers(below.read())]
                    assert max(ends) <= header.base_offset
            if number % 3 == 0:
                below = log.read(log.log_start_offset, 10**6, header.base_offset)
                if below is not None:
                    assert all(
                        h.next_offset <= header.base_offset for _, h in iter_headers(below.read())
                    )

    def check_times(self, batches: list[bytes]) -> None:
        log = self.log
        records = [
            (record.timestamp, record.offset)
            for batch in batches
            for record in read_records(batch)
            if record.offset >= log.log_start_offset
        ]
        for timestamp, _ in [*records[:3], *records[-3:], (NOW_MS - 100, 0), (NOW_MS + 10**6, 0)]:
            found = log.offset_for_timestamp(timestamp)
            wanted = next((r for r in records if r[0] >= timestamp), None)
            assert (None if found is None else (found.timestamp, found.offset)) == wanted

    def check_transactions(self, batches: list[bytes]) -> None:
        if self.expected.start > 0:
            return  # older transactions may be forgotten, which is all right
        state = ProducerState()
        aborted = []
        for batch in batches:
            header = read_header(batch)
            if header.has_producer_id:
                done = apply_batch(state, header, memoryview(batch))
                if done is not None:
                    aborted.append((done.producer_id, done.first_offset))
        assert self.log.aborted_transactions(0, self.log.log_end_offset) == aborted
        assert self.log.producers.first_undecided_offset == state.first_undecided_offset
        assert {
            (entry.producer_id, entry.epoch, entry.last_sequence, entry.txn_first_offset)
            for entry in self.log.producers.producers.values()
        } == {
            (entry.producer_id, entry.epoch, entry.last_sequence, entry.txn_first_offset)
            for entry in state.producers.values()
        }


LogMachine.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=50,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
)
TestLogUnderPowerCuts = LogMachine.TestCase
