"""What the log cleaner does to records: the map of keys, what is kept, times moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records.batch import read_header
from moldau.records.builder import build_batch
from moldau.records.compaction import KeyMap, keep_records, shift_timestamps
from moldau.records.errors import InvalidRecordError
from moldau.records.reader import read_payload, read_records
from moldau.records.record import Record

NOW_MS = 1_700_000_000_000

keys = st.one_of(st.binary(max_size=3), st.binary(min_size=100, max_size=300))
records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(NOW_MS, NOW_MS + 10**10),
        keys,
        st.one_of(st.none(), st.binary(max_size=20)),
        st.sampled_from([(), (("name", b"value"), ("none", None))]),
    ),
    min_size=1,
    max_size=20,
)


def encode(content: list[Record]) -> bytes:
    batch = build_batch(content)
    return read_payload(batch, 0, read_header(batch))


def decode(payload: bytes, like: list[Record], base_timestamp: int, count: int) -> list[Record]:
    """The records in ``payload``, through a batch made by hand around it."""
    batch = bytearray(build_batch(like))
    header = read_header(batch)
    del batch[61:]
    batch += payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27] = header.last_offset_delta.to_bytes(4, "big")
    batch[27:35] = base_timestamp.to_bytes(8, "big", signed=True)
    batch[57:61] = count.to_bytes(4, "big")
    return read_records(batch, check_crc=False)


@given(st.lists(st.tuples(keys, st.integers(0, 2**62)), max_size=60), st.integers(61, 200))
def test_the_map_remembers_the_last_offset_of_each_key(
    puts: list[tuple[bytes, int]], slots: int
) -> None:
    known = KeyMap(slots, slots)
    for key, offset in puts:
        known.put(key, offset)
    last = dict(puts)
    assert known.size == len(last)
    assert {key: known.get(key) for key in last} == last
    assert known.get(b"a key that was not put") == -1
    if puts:
        assert known.latest_offset == puts[-1][1]


def test_a_map_with_one_place_left_still_answers() -> None:
    known = KeyMap(10, 10)
    assert known.max_keys == 9
    assert known.put_all(encode([Record(0, 0, b"%d" % n, b"") for n in range(9)]), 9, 0, 0)
    assert [known.get(b"%d" % n) for n in range(10)] == [*range(9), -1]
    # Kafka stops here, too: whether the key is known already is not looked at.
    assert not known.put_all(encode([Record(0, 0, b"1", b"")]), 1, 20, 0)
    assert known.latest_offset == 8


@given(records, st.integers(0, 25))
def test_the_keys_of_a_batch_from_an_offset_on(content: list[Record], start: int) -> None:
    known = KeyMap(100, 100)
    assert known.put_all(encode(content), len(content), 5, start)
    expected = {record.key: offset for offset, record in enumerate(content, 5) if offset >= start}
    assert {key: known.get(key) for key in expected if key is not None} == expected
    assert known.size == len(expected)


@given(records, st.integers(0, 30), st.booleans(), st.data())
def test_what_is_kept(
    content: list[Record], latest: int, keep_tombstones: bool, data: st.DataObject
) -> None:
    known = KeyMap(100, 100)
    for record in content:
        if record.key is not None and data.draw(st.booleans()):
            known.put(record.key, data.draw(st.integers(0, 30)))
    known.latest_offset = latest
    kept = keep_records(encode(content), len(content), 5, known, keep_tombstones=keep_tombstones)
    expected = [
        (offset, record)
        for offset, record in enumerate(content, 5)
        if offset > latest
        or (
            record.key is not None
            and offset >= known.get(record.key)
            and (record.value is not None or keep_tombstones)
        )
    ]
    assert kept.count == len(expected)
    assert kept.has_tombstone == any(record.value is None for _, record in expected)
    found = decode(b"".join(kept.parts), content, content[0].timestamp, kept.count)
    assert found == [
        Record(offset - 5, record.timestamp, record.key, record.value, record.headers)
        for offset, record in expected
    ]
    if expected:
        base = content[0].timestamp
        assert kept.first_delta == expected[0][1].timestamp - base
        assert kept.max_delta == max(record.timestamp for _, record in expected) - base


def test_records_without_a_key_go() -> None:
    known = KeyMap(10, 10)
    known.latest_offset = 10
    payload = encode([Record(0, 0, None, b"x"), Record(0, 0, b"", b"y")])
    assert keep_records(payload, 2, 0, known, keep_tombstones=True).count == 1


@given(records, st.integers(-(10**12), 10**12), st.booleans())
def test_moved_timestamps(content: list[Record], shift: int, same: bool) -> None:
    moved = shift_timestamps(encode(content), len(content), shift, same=same)
    found = decode(moved, content, content[0].timestamp - shift, len(content))
    times = [content[0].timestamp if same else record.timestamp for record in content]
    assert [record.timestamp for record in found] == times
    for before, after in zip(content, found, strict=True):
        assert (after.key, after.value, after.headers) == (
            before.key,
            before.value,
            before.headers,
        )


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_records_that_end_early_are_refused(cut: int) -> None:
    payload = encode([Record(0, 0, b"key", b"value"), Record(0, 0, b"key", b"value")])[:-cut]
    with pytest.raises(InvalidRecordError):
        KeyMap(10, 10).put_all(payload, 2, 0, 0)
    with pytest.raises(InvalidRecordError):
        keep_records(payload, 2, 0, KeyMap(10, 10), keep_tombstones=True)


def test_more_than_the_records_is_refused() -> None:
    payload = encode([Record(0, 0, b"key", b"value")]) + b"\0"
    with pytest.raises(InvalidRecordError):
        KeyMap(10, 10).put_all(payload, 1, 0, 0)
    with pytest.raises(InvalidRecordError):
        keep_records(payload, 1, 0, KeyMap(10, 10), keep_tombstones=True)
