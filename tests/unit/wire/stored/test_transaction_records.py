"""Bytes of Apache Kafka 4.3.1's own classes, read and written by ours.

Each line of the data file is a name, a key and a value in hex, printed by
``tests/java/TransactionRecords.java``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.data_messages import encode_prefixed
from moldau.wire.errors import DecodeError
from moldau.wire.stored.transaction_records import (
    TRANSACTION_RECORDS,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

GOLDEN = {
    name: (bytes.fromhex(key), bytes.fromhex(value))
    for name, key, value in (
        line.split()
        for line in (Path(__file__).parent / "data" / "kafka_4_3_1_transaction_records.txt")
        .read_text()
        .splitlines()
    )
}
TIME = 1700000000000
KEY = TransactionLogKey("täx")
BARE = TransactionLogValue(
    producer_id=42,
    producer_epoch=0,
    transaction_timeout_ms=60_000,
    transaction_status=0,
    transaction_last_update_timestamp_ms=TIME,
    transaction_start_timestamp_ms=-1,
)
ONGOING = replace(
    BARE,
    producer_epoch=7,
    transaction_status=1,
    transaction_partitions=(PartitionsSchema("töpic", (0, 7)), PartitionsSchema("b", ())),
    transaction_start_timestamp_ms=TIME - 5,
)
VALUES = {
    "bare": BARE,
    "bare_v0": BARE,
    "ongoing": ONGOING,
    "ongoing_v0": ONGOING,
    "two_producer_ids": replace(
        ONGOING,
        previous_producer_id=41,
        next_producer_id=43,
        next_producer_epoch=0,
        client_transaction_version=2,
    ),
}

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.builds(
    TransactionLogValue,
    producer_id=INT64,
    previous_producer_id=INT64,
    next_producer_id=INT64,
    producer_epoch=INT16,
    next_producer_epoch=INT16,
    transaction_timeout_ms=INT32,
    transaction_status=st.integers(-128, 127),
    transaction_partitions=st.none()
    | st.lists(
        st.builds(PartitionsSchema, TEXT, st.lists(INT32, max_size=3).map(tuple)), max_size=3
    ).map(tuple),
    transaction_last_update_timestamp_ms=INT64,
    transaction_start_timestamp_ms=INT64,
    client_transaction_version=INT16,
)


@pytest.mark.parametrize("name", VALUES)
def test_reads_what_kafka_wrote(name: str) -> None:
    assert TRANSACTION_RECORDS.decode(*GOLDEN[name]) == (KEY, VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_writes_the_bytes_that_kafka_writes(name: str) -> None:
    key, value = GOLDEN[name]
    if name.endswith("_v0"):
        assert encode_prefixed(0, VALUES[name], 0) == value
    else:
        assert TRANSACTION_RECORDS.encode(KEY, VALUES[name]) == (key, value)


@given(st.builds(TransactionLogKey, TEXT), st.none() | values)
def test_what_is_written_is_read_back(
    key: TransactionLogKey, value: TransactionLogValue | None
) -> None:
    assert TRANSACTION_RECORDS.decode(*TRANSACTION_RECORDS.encode(key, value)) == (key, value)


@pytest.mark.parametrize("name", VALUES)
def test_a_cut_record_is_refused(name: str) -> None:
    key, value = GOLDEN[name]
    for end in range(len(key)):
        with pytest.raises(DecodeError):
            TRANSACTION_RECORDS.decode(key[:end], value)
    for end in range(len(value)):
        with pytest.raises(DecodeError):
            TRANSACTION_RECORDS.decode(key, value[:end])
