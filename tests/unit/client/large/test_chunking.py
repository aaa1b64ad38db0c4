"""Chunks of any interleaving become the same messages, also when a consumer dies in the middle."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.errors import ConfigError, LargeMessageError
from moldau.client.large import Chunking
from moldau.client.large.assembly import Assembler
from moldau.client.large.chunk_headers import INDEX, ChunkHeaders, write_chunk_headers
from moldau.client.large.codec import Header
from moldau.machine.real import this_machine
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord

P = TopicPartition("photos", 0)


def records_of(
    codec: Chunking, value: bytes | None, key: bytes = b"k", headers: tuple[Header, ...] = ()
) -> list[ConsumerRecord]:
    parts: Sequence[tuple[bytes | None, Sequence[Header]]] = codec.encode(
        "photos", value, headers, this_machine()
    )
    return [
        ConsumerRecord("photos", 0, 0, 1000, key=key, value=v, headers=tuple(h))
        for v, h in parts or [(value, headers)]
    ]


def at(record: ConsumerRecord, offset: int) -> ConsumerRecord:
    return ConsumerRecord(
        record.topic,
        record.partition,
        offset,
        record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def log_of(*messages: list[ConsumerRecord]) -> list[ConsumerRecord]:
    return [at(record, n) for n, record in enumerate(itertools.chain(*messages))]


def test_a_value_at_the_threshold_is_sent_as_it_is() -> None:
    codec = Chunking(threshold=10)
    assert codec.encode("t", b"x" * 10, (), this_machine()) == []
    assert codec.encode("t", None, (), this_machine()) == []
    assert len(codec.encode("t", b"x" * 11, (), this_machine())) == 2


def test_no_chunk_is_larger_than_chunk_size() -> None:
    parts = Chunking(threshold=100, chunk_size=40).encode("t", bytes(101), (), this_machine())
    assert [len(value) for value, _ in parts] == [40, 40, 21]


def test_a_message_has_its_key_time_headers_and_the_last_offset() -> None:
    codec = Chunking(threshold=4)
    log = log_of(records_of(codec, b"0123456789", b"cat", (("kind", b"jpeg"), ("empty", None))))
    (message,) = codec.reader().read(P, log, 0.0)
    assert message == ConsumerRecord(
        "photos",
        0,
        2,
        1000,
        key=b"cat",
        value=b"0123456789",
        headers=(("kind", b"jpeg"), ("empty", None)),
    )


def test_nothing_after_the_first_chunk_of_an_unfinished_message_is_committed() -> None:
    codec = Chunking(threshold=4)
    slow = records_of(codec, b"slow slow slow")
    log = log_of(slow[:1], records_of(codec, b"quick"), slow[1:])
    reader = codec.reader()
    assert [r.value for r in reader.read(P, log[:3], 0.0)] == [b"quick"]
    assert reader.committable(P, 3) == 0
    assert [r.value for r in reader.read(P, log[3:], 0.0)] == [b"slow slow slow"]
    assert reader.committable(P, len(log)) == len(log)
    assert reader.buffered == 0


def test_chunks_whose_first_one_is_before_the_position_mean_nothing() -> None:
    codec = Chunking(threshold=4)
    log = log_of(records_of(codec, b"0123456789"), records_of(codec, b"x"))
    reader = codec.reader()
    assert [r.value for r in reader.read(P, log[1:], 0.0)] == [b"x"]
    reader.check()


def test_repeated_chunks_are_ignored() -> None:
    codec = Chunking(threshold=4)
    one, two, three = records_of(codec, b"0123456789")
    log = log_of([one, two, one, two, three, three])
    assert [r.value for r in codec.reader().read(P, log, 0.0)] == [b"0123456789"]


def expect_damage(reader: Assembler, offset: int, words: str) -> None:
    assert reader.committable(P, 1000) == offset
    with pytest.raises(LargeMessageError, match=words) as caught:
        reader.check()
    assert (caught.value.partition, caught.value.offset) == (P, offset)
    assert reader.committable(P, 1000) == offset, "a program that ends now must see it again"
    reader.check()
    assert reader.committable(P, 1000) == 1000


def test_a_missing_chunk_is_reported_once_and_the_rest_is_delivered() -> None:
    codec = Chunking(threshold=4)
    one, _, three = records_of(codec, b"0123456789")
    log = log_of(records_of(codec, b"a"), [one, three], records_of(codec, b"b"))
    reader = codec.reader()
    assert [r.value for r in reader.read(P, log, 0.0)] == [b"a", b"b"]
    expect_damage(reader, 1, "chunk 1 of 3 is missing")


def test_a_wrong_digest_is_reported() -> None:
    codec = Chunking(threshold=4)
    log = log_of(records_of(codec, b"0123456789"))
    log[1].value = b"4x67"
    reader = codec.reader()
    assert reader.read(P, log, 0.0) == []
    expect_damage(reader, 0, "digest is wrong")


def test_memory_is_bounded() -> None:
    codec = Chunking(threshold=100_000, buffer_memory=310_000)
    first, second = records_of(codec, bytes(300_000)), records_of(codec, bytes(200_000))
    log = log_of(first[:2], second, first[2:])
    reader = codec.reader()
    assert reader.read(P, log[:4], 0.0) == []
    assert 200_000 <= reader.buffered < 205_000
    with pytest.raises(LargeMessageError, match="does not fit into buffer_memory") as caught:
        reader.check()
    assert caught.value.offset == 2
    assert [r.value for r in reader.read(P, log[4:], 0.0)] == [bytes(300_000)]
    assert reader.buffered == 0


def chunk(message: int, index: int, count: int, **own: Any) -> ConsumerRecord:
    """One that no producer of ours makes: without a value, unless it is given one."""
    headers = write_chunk_headers(ChunkHeaders(b"%d" % message, index, count, bytes(32)))
    return ConsumerRecord("photos", 0, message, 1000, **({"headers": tuple(headers)} | own))


@pytest.mark.parametrize(
    ("hostile", "least"),
    [
        pytest.param(lambda n: chunk(n, 0, 2), 1000, id="no value at first"),
        pytest.param(lambda n: chunk(n, 0, 2, value=b""), 1000, id="no bytes at first"),
        pytest.param(lambda n: chunk(n, 0, 2, key=bytes(5000)), 5000, id="large keys"),
        pytest.param(
            lambda n: chunk(
                n, 0, 2, headers=(("x", bytes(5000)), *chunk(n, 0, 2).headers), value=b""
            ),
            5000,
            id="large headers",
        ),
        pytest.param(lambda n: chunk(7, n, 10**9, value=b""), 60, id="chunks of no bytes"),
    ],
)
def test_chunks_with_little_in_them_take_memory_too(
    hostile: Callable[[int], ConsumerRecord], least: int
) -> None:
    reader = Chunking(buffer_memory=100_000).reader()
    taken, buffered = 0, -1
    while reader.buffered > buffered:  # until the first that is not taken
        buffered = reader.buffered
        reader.read(P, [hostile(taken)], 0.0)
        taken += 1
    with pytest.raises(LargeMessageError, match="does not fit into buffer_memory"):
        reader.check()
    assert (taken - 1) * least <= 100_000
    assert reader.buffered <= 100_000
    reader.forget(P)
    assert reader.buffered == 0


def test_damage_is_skipped_on_demand(caplog: pytest.LogCaptureFixture) -> None:
    codec = Chunking(threshold=4, on_damage="skip")
    one, _, three = records_of(codec, b"0123456789")
    reader = codec.reader()
    reader.read(P, log_of([one, three]), 0.0)
    reader.check()
    assert reader.committable(P, 2) == 2
    assert "chunk 1 of 3 is missing; it is skipped" in caplog.text


def test_a_message_that_nobody_finishes_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    codec = Chunking(threshold=4, timeout_ms=5_000)
    one, two, three = records_of(codec, b"0123456789")
    log = log_of([one, two], records_of(codec, b"x"), records_of(codec, b"y"), [three])
    reader = codec.reader()
    reader.read(P, log[:1], 0.0)
    reader.read(P, log[1:3], 4.0)
    assert reader.committable(P, 3) == 0
    reader.read(P, log[3:4], 9.0)
    assert reader.committable(P, 4) == 4
    assert reader.buffered == 0
    assert "offset 0: 2 of 3 chunks came" in caplog.text


def test_a_slow_consumer_does_not_make_a_message_late() -> None:
    codec = Chunking(threshold=4, timeout_ms=5_000)
    log = log_of(records_of(codec, b"0123456789"))
    reader = codec.reader()
    reader.read(P, log[:1], 0.0)
    assert [r.value for r in reader.read(P, log[1:], 3600.0)] == [b"0123456789"]


def test_a_forgotten_partition_starts_anew() -> None:
    codec = Chunking(threshold=4)
    log = log_of(records_of(codec, b"0123456789"))
    reader = codec.reader()
    reader.read(P, log[:2], 0.0)
    reader.forget(P)
    assert reader.buffered == 0
    assert reader.committable(P, 2) == 2
    assert [r.value for r in reader.read(P, log, 0.0)] == [b"0123456789"]


def test_headers_of_others_are_left_alone() -> None:
    record = ConsumerRecord("photos", 0, 0, value=b"v", headers=((INDEX, b"1"),) * 5)
    assert Chunking().reader().read(P, [record], 0.0) == [record]


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"chunk_size": -1}, {"on_damage": "cry"}])
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Chunking(**wrong)  # type: ignore[arg-type]


def test_an_offset_inside_a_delivered_message_is_moved_to_its_start() -> None:
    """As a listener commits: the offset of the first record that is not handled yet."""
    codec = Chunking(threshold=4)
    one, two = records_of(codec, b"0123456789"), records_of(codec, b"abcdefgh")
    log = log_of(one[:1], two[:1], one[1:], two[1:])
    reader = codec.reader()
    assert [r.offset for r in reader.read(P, log, 0.0)] == [3, 4]
    assert reader.committable(P, 3) == 0
    assert reader.committable(P, 4) == 1
    assert reader.committable(P, 5) == 5


def test_what_cannot_be_deserialized_is_damage() -> None:
    def refuse(record: ConsumerRecord) -> None:
        if record.value == b"0123456789":
            raise ValueError("no photo")

    codec = Chunking(threshold=4)
    log = log_of(records_of(codec, b"a"), records_of(codec, b"0123456789"), records_of(codec, b"b"))
    reader = codec.reader(refuse)
    assert [r.value for r in reader.read(P, log, 0.0)] == [b"a", b"b"]
    expect_damage(reader, 1, "no photo")


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.binary(max_size=40), min_size=1, max_size=8),
    seed=st.integers(0, 2**32),
    chunk_size=st.integers(1, 9),
)
def test_any_interleaving_and_any_crash(values: list[bytes], seed: int, chunk_size: int) -> None:
    """Every message is handled, in spite of crashes, and nothing else is."""
    rng = random.Random(seed)
    codec = Chunking(threshold=4, chunk_size=chunk_size)
    queues = [records_of(codec, value, b"%d" % n) for n, value in enumerate(values)]
    log: list[ConsumerRecord] = []
    while any(queues):
        queue = rng.choice([queue for queue in queues if queue])
        log.append(at(queue.pop(0), len(log)))
    committed = 0
    handled: list[ConsumerRecord] = []
    while committed < len(log):
        reader = codec.reader()
        position = committed
        waiting: list[ConsumerRecord] = []
        while position < len(log) or waiting:
            batch = log[position : position + rng.randint(0, 6)]
            whole = reader.read(P, batch, 0.0)
            reader.check()
            position += len(batch)
            waiting += whole
            assert [r.offset for r in waiting] == sorted({r.offset for r in waiting})
            done = rng.randint(0, len(waiting))
            handled += waiting[:done]
            del waiting[:done]
            if rng.random() < 0.5:
                wanted = waiting[0].offset if waiting else position
                safe = reader.committable(P, wanted)
                assert committed <= safe <= wanted
                committed = safe
            if rng.random() < 0.1:
                break
        else:
            committed = reader.committable(P, position)
            assert reader.buffered == 0
    found = {(r.key, r.value) for r in handled}
    assert found == {(b"%d" % n, value) for n, value in enumerate(values)}
