"""What the log raises besides the plain error codes."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.errors import ErrorCode, KafkaError


class RecordValidationError(KafkaError):
    """Some records of a batch were refused; a produce answer names them (KIP-467)."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)
        """Index in the batch and what is wrong with that record."""


class LongCheckError(Exception):
    """The records of a batch take too long to look at on the event loop: nothing was done yet."""


class StorageError(KafkaError):
    """The disk failed, and the log is offline until the broker starts again; or it is full."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class OffsetOutOfRangeError(KafkaError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)


class UnexpectedOffsetError(KafkaError):
    """A leader's batches do not continue a follower's log."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class CorruptIndexError(Exception):
    """An index does not fit its segment; it can be rebuilt from the log."""


class CorruptSnapshotError(Exception):
    """A producer snapshot cannot be read; an older one and the log replace it."""


class CorruptCheckpointError(Exception):
    """A checkpoint or metadata file cannot be read."""
