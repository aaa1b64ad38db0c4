"""Which leader epoch wrote which part of a log: pairs of epoch and its first offset.

Replicas compare these to find where they diverged (KIP-101, KIP-279). Kept in memory; the
checkpoint file is written when the log is flushed or closed, before the recovery point passes the
entry. After a crash the entries past the recovery point come back from the batches themselves, so
that no append ever waits for this file.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.checkpoints import decode_lines, encode_lines

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
_HEADER_LINES: Final = 2


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Entries with growing epochs and growing start offsets."""

    __slots__ = ("_epochs", "_starts", "dirty", "latest_epoch")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        for entry in entries or ():
            self.assign(*entry)
        self.dirty = False
        """Whether there is something that the checkpoint file does not have."""

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*entry) for entry in zip(self._epochs, self._starts, strict=True)]

    def __len__(self) -> int:
        return len(self._epochs)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` starts at ``start_offset``; what contradicts it is dropped."""
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and start_offset >= starts[-1]:
            return
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.latest_epoch = epoch
        self.dirty = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Returns the largest epoch up to ``epoch`` that is known here, and where it ends."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if higher == 0:
            # Older than anything here: what it wrote is gone, the reader starts where we do.
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def epoch_for_offset(self, offset: int) -> int | None:
        """Returns the epoch that wrote ``offset``."""
        number = bisect_right(self._starts, offset)
        return self._epochs[number - 1] if number else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at ``end_offset`` or later."""
        kept = len(self._starts)
        while kept and self._starts[kept - 1] >= end_offset:
            kept -= 1
        if kept != len(self._starts):
            del self._starts[kept:], self._epochs[kept:]
            self.latest_epoch = self._epochs[-1] if kept else UNDEFINED_EPOCH
            self.dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended by ``start_offset``; the one in force there starts there."""
        passed = bisect_right(self._starts, start_offset)
        if passed == 0 or (passed == 1 and self._starts[0] == start_offset):
            return
        del self._starts[: passed - 1], self._epochs[: passed - 1]
        self._starts[0] = start_offset
        self.dirty = True

    def take_over(self, other: LeaderEpochs) -> None:
        """Know what ``other`` knows; no checkpoint file has it."""
        self._epochs, self._starts = list(other._epochs), list(other._starts)
        self.latest_epoch = other.latest_epoch
        self.dirty = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.latest_epoch = UNDEFINED_EPOCH
            self.dirty = True

    def encode(self) -> bytes:
        return encode_lines(
            f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)
        )

    @classmethod
    def decode(cls, data: bytes, path: str) -> LeaderEpochs:
        if not data.endswith(b"\n") or data.count(b"\n") < _HEADER_LINES:
            raise CorruptCheckpointError(f"{path} is torn")
        try:
            return cls(
                [EpochEntry(int(epoch), int(start)) for epoch, start in decode_lines(data, path)]
            )
        except ValueError as error:
            raise CorruptCheckpointError(f"{path}: {error}") from None
