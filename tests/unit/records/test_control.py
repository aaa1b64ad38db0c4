"""Control records."""

from __future__ import annotations

import struct

import pytest

from moldau.records.batch import read_header
from moldau.records.control import (
    ControlType,
    build_end_txn_marker,
    control_key,
    read_control_type,
    read_coordinator_epoch,
)
from moldau.records.errors import InvalidRecordError
from moldau.records.reader import read_records


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_says_how_the_transaction_ended(control_type: ControlType) -> None:
    batch = build_end_txn_marker(
        control_type,
        producer_id=12,
        producer_epoch=3,
        coordinator_epoch=5,
        timestamp=1000,
        base_offset=44,
        leader_epoch=2,
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (12, 3, -1)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (44, 44, 2)
    (record,) = read_records(batch)
    assert read_control_type(record.key) is control_type
    assert read_coordinator_epoch(record.value) == 5
    assert record.timestamp == 1000


def test_only_commit_and_abort_end_a_transaction() -> None:
    with pytest.raises(ValueError, match="LEADER_CHANGE"):
        build_end_txn_marker(
            ControlType.LEADER_CHANGE,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
        )


def test_a_type_from_the_future_is_unknown() -> None:
    assert read_control_type(struct.pack(">hh", 0, 99)) is ControlType.UNKNOWN


def test_a_key_from_the_future_may_be_longer() -> None:
    assert read_control_type(struct.pack(">hhq", 1, 1, 7)) is ControlType.COMMIT
    assert read_control_type(control_key(ControlType.ABORT)) is ControlType.ABORT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_an_impossible_key_is_invalid(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        read_control_type(key)


@pytest.mark.parametrize("value", [None, b"", bytes(5), struct.pack(">hi", -1, 0)])
def test_an_impossible_marker_is_invalid(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        read_coordinator_epoch(value)
