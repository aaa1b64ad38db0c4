"""What a log remembers of its producers: epochs, sequences, open transactions.

This is what makes a retried batch land once (idempotent producers, KIP-98) and what bounds the
reads of committed data. State changes only by batches that are in the log, so that scanning the log
(from a snapshot on) rebuilds it.
"""

from __future__ import annotations

from enum import Enum
from operator import attrgetter
from typing import Final, NamedTuple

from moldau.errors import ErrorCode, KafkaError
from moldau.log.files.producer_snapshot import SnapshotEntry
from moldau.log.partition.results import ActiveProducer
from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.records.batch import CONTROL_FLAG, MAX_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from moldau.records.control import ControlType, read_control_type, read_coordinator_epoch
from moldau.records.reader import read_records

BATCHES_REMEMBERED: Final = 5
MOST_PRODUCERS: Final = 10_000
"""Producers that a log remembers. One takes 0.5 to 1.2 KB of memory, 46 bytes of each snapshot, and
about a microsecond of the time of a roll.
"""
_FORGOTTEN_AT_ONCE: Final = MOST_PRODUCERS // 10
"""So many have to come before it is looked for the oldest ones again."""
_LAST_OFFSET: Final = attrgetter("last_offset")
NO_EPOCH: Final = -1
NO_TRANSACTION: Final = -1


class AppendOrigin(Enum):
    """Who appends, which decides how much is checked."""

    CLIENT = "client"
    """A produce request: everything is checked."""

    COORDINATOR = "coordinator"
    """A group or transaction coordinator of this broker: control batches allowed."""

    REPLICATION = "replication"
    """The leader's batches, or our own file: checked before, taken as they are."""


class BatchMetadata(NamedTuple):
    """A batch that a producer may send again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_offset",
        "last_sequence",
        "last_timestamp",
        "producer_id",
        "restored",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.last_offset = -1
        """Of what it has written, data or marker."""
        self.last_sequence = -1
        self.txn_first_offset = NO_TRANSACTION
        self.batches: list[BatchMetadata] = []
        self.restored = False
        """Known from a snapshot, which has the last batch only: those before it are in the log, but
        not among ``batches``.
        """

    def begin_epoch(self, epoch: int) -> None:
        """Nothing of an older epoch counts any more."""
        self.epoch = epoch
        self.last_sequence = -1
        self.batches = []
        self.restored = False

    def to_snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMetadata(-1, -1, 0, -1)
        return SnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    @classmethod
    def from_snapshot(cls, snapshot: SnapshotEntry) -> ProducerEntry:
        entry = cls(snapshot.producer_id)
        entry.epoch = snapshot.epoch
        entry.coordinator_epoch = snapshot.coordinator_epoch
        entry.last_timestamp = snapshot.timestamp
        entry.last_offset = snapshot.last_offset
        entry.last_sequence = snapshot.last_sequence
        entry.txn_first_offset = snapshot.txn_first_offset
        entry.restored = True
        if snapshot.last_offset >= 0:
            entry.batches.append(
                BatchMetadata(
                    snapshot.last_sequence,
                    snapshot.last_offset,
                    snapshot.offset_delta,
                    snapshot.timestamp,
                )
            )
        return entry


class EndMarker(NamedTuple):
    """The one record of a control batch that ends a transaction."""

    commit: bool
    coordinator_epoch: int


class Verification:
    """A producer whose next batch would begin a transaction, while its coordinator is asked whether
    the partition takes part (KIP-890). Without that a batch that comes late, after its transaction
    has ended, would begin one that nobody ever ends.
    """

    __slots__ = ("done", "epoch", "lowest_sequence", "starts_epoch")

    def __init__(self, epoch: int, sequence: int, *, starts_epoch: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of the batches that wait: none may be stored without those before it."""
        self.starts_epoch = starts_epoch
        """Every transaction has an epoch of its own, so that its sequences begin with 0."""
        self.done = False
        """The coordinator has said yes."""


class ProducerState:
    """The producers of one log, up to ``end_offset``."""

    __slots__ = (
        "_completed",
        "_forgets_at",
        "_open",
        "_verifications",
        "end_offset",
        "forgotten",
        "producers",
    )

    def __init__(self, end_offset: int = 0) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.end_offset = end_offset
        self.forgotten = 0
        """How many there were too many, since somebody last told the operator."""
        # First offset of each open transaction and its producer, in the order of the offsets.
        self._open: dict[int, int] = {}
        # First and last offset of ended ones whose marker may not be replicated yet.
        self._completed: dict[int, int] = {}
        self._forgets_at = MOST_PRODUCERS
        self._verifications: dict[int, Verification] = {}

    def load(self, entries: list[SnapshotEntry], offset: int, oldest_ms: int) -> None:
        """Start from a snapshot at ``offset``, without those idle since before ``oldest_ms``."""
        self.clear(offset)
        for snapshot in sorted(entries, key=lambda entry: entry.txn_first_offset):
            if snapshot.txn_first_offset < 0 and snapshot.timestamp <= oldest_ms:
                continue
            self.producers[snapshot.producer_id] = ProducerEntry.from_snapshot(snapshot)
            if snapshot.txn_first_offset >= 0:
                self._open[snapshot.txn_first_offset] = snapshot.producer_id
        if len(self.producers) > MOST_PRODUCERS:
            self._forget_oldest()

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self._open.clear()
        self._completed.clear()
        self._verifications.clear()
        self.end_offset = end_offset
        self._forgets_at = MOST_PRODUCERS

    def take_over(self, other: ProducerState) -> None:
        """Know what ``other`` knows, which is not used any more."""
        self.producers = other.producers
        self.end_offset = other.end_offset
        self._open = other._open
        self._completed = other._completed
        self._verifications = other._verifications
        self._forgets_at = other._forgets_at

    def expire(self, oldest_ms: int) -> None:
        """Forget producers without a transaction that wrote nothing since ``oldest_ms``."""
        idle = [
            entry.producer_id
            for entry in self.producers.values()
            if entry.txn_first_offset < 0 and entry.last_timestamp <= oldest_ms
        ]
        for producer_id in idle:
            del self.producers[producer_id]

    def _add(self, producer_id: int) -> ProducerEntry:
        """A producer that was not known. If there are too many, those that wrote longest ago are
        forgotten: their next batch is taken whatever its sequence, as of any producer that is not
        known. Offsets decide, on which all replicas agree, not times, which producers choose.
        """
        if len(self.producers) >= self._forgets_at:
            self._forget_oldest()
        entry = self.producers[producer_id] = ProducerEntry(producer_id)
        return entry

    def _forget_oldest(self) -> None:
        idle = [entry for entry in self.producers.values() if entry.txn_first_offset < 0]
        idle.sort(key=_LAST_OFFSET)
        surplus = len(self.producers) - MOST_PRODUCERS + _FORGOTTEN_AT_ONCE
        for entry in idle[:surplus]:
            del self.producers[entry.producer_id]
        self.forgotten += min(surplus, len(idle))
        # Who is in a transaction stays; it must not be looked at all of them for each one more.
        self._forgets_at = max(MOST_PRODUCERS, len(self.producers) + _FORGOTTEN_AT_ONCE)

    # Before the append -----------------------------------------------------------------------

    def check(self, header: BatchHeader, origin: AppendOrigin) -> BatchMetadata | None:
        """Whether this batch may follow; the earlier one if it is a duplicate.

        Raises INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE, or
        DUPLICATE_SEQUENCE_NUMBER if the batch is in the log, nobody remembers where.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return None
        epoch = header.producer_epoch
        if origin is AppendOrigin.CLIENT and epoch == entry.epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in entry.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
            if entry.restored and entry.batches:
                _check_forgotten(entry, last)
        if epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {epoch} of producer {header.producer_id} is older than {entry.epoch}, "
                f"the last one seen",
            )
        if header.attributes & CONTROL_FLAG:
            return None
        if origin is AppendOrigin.CLIENT:
            _check_sequence(entry, epoch, header.base_sequence)
        if entry.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL_FLAG:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction, the batch is not in it",
            )
        return None

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, starts_epoch: bool
    ) -> Verification | None:
        """Ask for a batch that would begin a transaction; None if one is open."""
        entry = self.producers.get(producer_id)
        if entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch:
            return None
        known = self._verifications.get(producer_id)
        if known is None or known.epoch < epoch:
            if len(self._verifications) >= MOST_PRODUCERS:
                del self._verifications[next(iter(self._verifications))]
            known = Verification(epoch, sequence, starts_epoch=starts_epoch)
            self._verifications[producer_id] = known
        elif known.epoch == epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known

    def _end_verification(self, producer_id: int, marker_epoch: int) -> None:
        """A transaction has ended: what was asked of it is answered too late. Where every one has
        an epoch of its own the next may have begun to ask.
        """
        asked = self._verifications.get(producer_id)
        if asked is not None and (not asked.starts_epoch or asked.epoch < marker_epoch):
            del self._verifications[producer_id]

    def is_awaited(self, producer_id: int, verification: Verification) -> bool:
        """Whether no marker has come since it was asked."""
        return self._verifications.get(producer_id) is verification

    def check_transactional(self, header: BatchHeader) -> None:
        """Whether a client's batch may be in a transaction: in one that is open, or that its
        coordinator knows of.

        Raises INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        entry = self.producers.get(header.producer_id)
        epoch = header.producer_epoch
        if entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch:
            return
        verification = self._verifications.get(header.producer_id)
        if verification is None or not verification.done or verification.epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )
        is_new = entry is None or entry.epoch != epoch
        if header.base_sequence > verification.lowest_sequence or (
            verification.starts_epoch and is_new and header.base_sequence != 0
        ):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins a transaction with sequence "
                f"{header.base_sequence}",
            )

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, raises_epoch: bool
    ) -> None:
        """Whether a transaction may be ended in this way. ``raises_epoch``: its epoch ends with it,
        so that a marker of the present epoch can only be one that comes again.

        Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        if epoch < entry.epoch or (
            raises_epoch and epoch == entry.epoch and entry.txn_first_offset >= 0
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {epoch} of producer {producer_id}, which has {entry.epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of coordinator epoch {coordinator_epoch} for producer {producer_id}, "
                f"after one of {entry.coordinator_epoch}",
            )

    # After the append ------------------------------------------------------------------------

    def record_batch(self, header: BatchHeader, base_offset: int, max_timestamp: int) -> None:
        """Take over a data batch that is in the log now."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self._add(producer_id)
        if entry.epoch != header.producer_epoch:
            entry.begin_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        sequence = header.base_sequence
        last_sequence = (sequence + delta) & MAX_SEQUENCE if sequence >= 0 else sequence
        batches = entry.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
            entry.restored = False
        batches.append(BatchMetadata(last_sequence, base_offset + delta, delta, max_timestamp))
        entry.last_sequence = last_sequence
        entry.last_timestamp = max_timestamp
        entry.last_offset = base_offset + delta
        if header.attributes & TRANSACTIONAL_FLAG and entry.txn_first_offset < 0:
            entry.txn_first_offset = base_offset
            self._open[base_offset] = producer_id
            self._verifications.pop(producer_id, None)

    def record_marker(
        self, header: BatchHeader, marker: EndMarker, timestamp: int
    ) -> AbortedTransaction | None:
        """Take over a control batch; the transaction to index if it aborted one."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self._add(producer_id)
        if entry.epoch != header.producer_epoch:
            entry.begin_epoch(header.producer_epoch)
        self._end_verification(producer_id, header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        entry.last_offset = header.base_offset
        first_offset = entry.txn_first_offset
        if first_offset < 0:
            return None
        entry.txn_first_offset = NO_TRANSACTION
        self._open.pop(first_offset, None)
        last_offset = header.base_offset
        self._completed[first_offset] = last_offset
        if marker.commit:
            return None
        stable = next(iter(self._open), last_offset + 1)
        return AbortedTransaction(producer_id, first_offset, last_offset, stable)

    # Reading ---------------------------------------------------------------------------------

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction starts."""
        return next(iter(self._open), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """As ``first_undecided_offset``, but a marker counts only below the high watermark."""
        completed = self._completed
        if completed:
            for first in [first for first, last in completed.items() if last < high_watermark]:
                del completed[first]
        undecided = next(iter(self._open), None)
        if completed:
            unreplicated = min(completed)
            return unreplicated if undecided is None else min(undecided, unreplicated)
        return undecided

    def active(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
            for entry in self.producers.values()
        ]

    def snapshot(self) -> list[SnapshotEntry]:
        return [entry.to_snapshot() for entry in self.producers.values()]


def _check_forgotten(entry: ProducerEntry, last_sequence: int) -> None:
    """Refuse a batch from before a restart that is in the log: sequences leave no gaps, so all
    that came before the oldest one known were stored.

    Kafka calls it out of order, and the producer, which cannot know better, sends everything again
    under a new epoch: several requests in flight at a restart are stored twice.
    """
    behind = (entry.batches[0].first_sequence - last_sequence) & MAX_SEQUENCE
    if 0 < behind <= MAX_SEQUENCE // 2:
        raise KafkaError(
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            f"sequence {last_sequence} of producer {entry.producer_id} was stored before",
        )


def _check_sequence(entry: ProducerEntry, epoch: int, sequence: int) -> None:
    if epoch != entry.epoch:
        if sequence != 0 and entry.epoch != NO_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {entry.producer_id} starts epoch {epoch} with sequence {sequence} "
                f"instead of 0",
            )
        return
    last = entry.batches[-1].last_sequence if entry.batches else -1
    if sequence != last + 1 and not (sequence == 0 and last == MAX_SEQUENCE):
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {entry.producer_id} sent sequence {sequence}, after {last} comes {last + 1}",
        )


def apply_batch(
    state: ProducerState, header: BatchHeader, batch: memoryview
) -> AbortedTransaction | None:
    """Take over a batch that stands in the log; of data batches only the header is looked at."""
    if not header.attributes & CONTROL_FLAG:
        state.record_batch(header, header.base_offset, header.max_timestamp)
        return None
    records = read_records(batch, check_crc=False)
    if not records:
        return None  # the cleaner removed the whole transaction
    kind = read_control_type(records[0].key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    marker = EndMarker(kind is ControlType.COMMIT, read_coordinator_epoch(records[0].value))
    return state.record_marker(header, marker, records[0].timestamp)
