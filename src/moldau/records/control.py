"""Control records: what brokers write among the data to mark the end of a transaction.

A control batch holds one record. Its key says what it is (version and type, two 16-bit integers);
the value of an end-of-transaction marker says which epoch of the transaction coordinator wrote it.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.records.builder import build_batch
from moldau.records.errors import InvalidRecordError
from moldau.records.record import Record

CONTROL_KEY_VERSION: Final = 0
END_TXN_MARKER_VERSION: Final = 0

_KEY: Final = struct.Struct(">hh")
_END_TXN_MARKER: Final = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record is; a number not listed here reads as UNKNOWN and is to be skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_key(control_type: ControlType) -> bytes:
    return _KEY.pack(CONTROL_KEY_VERSION, control_type)


def read_control_type(key: bytes | None) -> ControlType:
    """What the control record with this key is. Later versions of the key may append fields."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError("a control record's key needs a version and a type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"a control record's key cannot have version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def read_coordinator_epoch(value: bytes | None) -> int:
    """Which epoch of the transaction coordinator wrote the marker with this value."""
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise InvalidRecordError("an end-of-transaction marker needs a version and an epoch")
    version, epoch = _END_TXN_MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"an end-of-transaction marker cannot have version {version}")
    return int(epoch)


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction, for one partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    raises_epoch: bool = False
    """The transaction was one of version 2: its epoch ends with it, the marker has the next."""

    def batch(self, timestamp: int) -> bytearray:
        """The control batch that says so."""
        return build_end_txn_marker(
            ControlType.COMMIT if self.commit else ControlType.ABORT,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp=timestamp,
        )


def build_end_txn_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that commits or aborts a producer's transaction in one partition."""
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"{control_type.name} does not end a transaction")
    value = _END_TXN_MARKER.pack(END_TXN_MARKER_VERSION, coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, control_key(control_type), value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )
