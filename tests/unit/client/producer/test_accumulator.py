"""Records become batches: when they are full, when they are due, and when there is no room."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.unit.client.producer.harness import TOPIC, Bench, values_in

from moldau.client.errors import ClosedError, RecordTooLargeError, UnknownTopicError
from moldau.client.producer.batch import BatchState, Home, ProducerBatch
from moldau.client.producer.queue import GROWTH, PartitionQueue, TopicState
from moldau.client.producer.record import EncodedRecords
from moldau.model import NO_TOPIC_ID
from moldau.records.batch import HEADER_SIZE
from moldau.records.builder import BatchBuilder


def test_a_batch_is_due_when_its_linger_is_over() -> None:
    bench = Bench(linger_ms=5)
    bench.send(b"a")
    assert bench.accumulator.due(bench.queue()) == pytest.approx(100.005)
    assert not bench.may_send()
    bench.now += 0.006
    assert values_in(bench.take()) == [b"a"]


def test_a_full_batch_is_due_at_once() -> None:
    bench = Bench(linger_ms=1000, batch_size=400)
    bench.send(b"x" * 250)
    assert not bench.may_send()
    bench.send(b"y" * 250)
    assert values_in(bench.take()) == [b"x" * 250]
    assert not bench.may_send()


def test_flushing_and_callers_without_room_make_all_batches_due() -> None:
    for attribute in ("flushing", "starving"):
        bench = Bench(linger_ms=1000)
        bench.send(b"a")
        setattr(bench.accumulator, attribute, 1)
        assert bench.may_send()


def test_the_last_batch_grows_while_others_wait() -> None:
    bench = Bench(batch_size=1000)
    for number in range(100):
        bench.send(b"%03d" % number + b"x" * 97)
    sizes = [batch.builder.size for batch in bench.queue().waiting]
    grown = bench.queue().open
    assert grown is not None
    assert len(sizes) == 1
    assert sizes[0] <= 1000
    assert 1000 < grown.builder.size <= 1000 * GROWTH
    assert len(values_in(bench.take())) + grown.builder.count == 100


def test_batches_of_one_record_with_batch_size_0() -> None:
    bench = Bench(batch_size=0)
    for _ in range(3):
        bench.send(b"x")
    assert [bench.accumulator.take(bench.queue()).count for _ in range(3)] == [1, 1, 1]


def test_no_room_is_told_and_room_comes_back() -> None:
    bench = Bench(buffer_memory=1000, linger_ms=0)
    bench.send(b"x" * 600)
    assert bench.try_send(b"x" * 600) is None
    bench.stored(bench.take())
    assert bench.accumulator.buffered == 0
    assert bench.try_send(b"x" * 600) is not None


def test_records_that_never_fit_are_refused() -> None:
    bench = Bench(buffer_memory=1000)
    with pytest.raises(RecordTooLargeError, match="1000 bytes"):
        bench.send(b"x" * 2000)
    with pytest.raises(UnknownTopicError, match="has no partition 5"):
        bench.send(b"x", partition=5)
    with pytest.raises(UnknownTopicError):
        bench.send(b"x", partition=-1)
    assert bench.accumulator.buffered == 0


def test_unknown_topics_have_to_be_learned_first() -> None:
    bench = Bench()
    assert bench.accumulator.send("other", b"", None, (), None, None) is None


def test_nothing_is_accepted_after_a_refusal() -> None:
    bench = Bench()
    bench.accumulator.refuse(ClosedError("over"))
    bench.accumulator.refuse(ClosedError("later"))
    with pytest.raises(ClosedError, match="over"):
        bench.send(b"")
    with pytest.raises(ClosedError, match="over"):
        bench.accumulator.send_many(TOPIC, [b""], None, (), None, 0, 0, [])


def test_the_sender_is_woken_once_until_it_looks() -> None:
    bench = Bench(batch_size=300, linger_ms=5)
    bench.send(b"a")
    assert bench.wakes == 1
    for _ in range(20):
        bench.send(b"x" * 250)
    assert bench.wakes == 1
    bench.accumulator.wake_pending = False
    bench.accumulator.wake_at = 0.0  # it comes by itself before any linger ends
    bench.take()
    bench.send(b"x", partition=0)
    assert bench.wakes == 1


def test_send_many_places_every_record() -> None:
    bench = Bench(partitions=3, batch_size=400)
    values = [b"%d" % number for number in range(100)]
    ranges: list[tuple[ProducerBatch, int, int]] = []
    done = bench.accumulator.send_many(TOPIC, values, values, (), None, 5, 0, ranges)
    assert done == 100
    assert sum(records for _, _, records in ranges) == 100
    bench.now += 1
    by_batch: dict[ProducerBatch, list[bytes | None]] = {}
    for partition in range(3):
        while bench.head(partition) is not None:
            batch = bench.take(partition)
            by_batch[batch] = values_in(batch)
            bench.stored(batch)
    placed = [
        by_batch[batch][index]
        for batch, first, records in ranges
        for index in range(first, first + records)
    ]
    assert placed == values


def test_send_many_stops_where_the_room_ends() -> None:
    bench = Bench(buffer_memory=1000, batch_size=100_000)
    ranges: list[tuple[ProducerBatch, int, int]] = []
    values: list[bytes | None] = [b"x" * 100] * 50
    done = bench.accumulator.send_many(TOPIC, values, None, (), None, 0, 0, ranges)
    assert 5 < done < 10
    assert sum(records for _, _, records in ranges) == done
    again = bench.accumulator.send_many(TOPIC, values, None, (), None, 0, done, ranges)
    assert again == done


def encoded(*values: bytes) -> EncodedRecords:
    builder = BatchBuilder()
    for value in values:
        builder.append(5, None, value)
    data = bytes(builder.build()[HEADER_SIZE:])
    return EncodedRecords(data, len(values), 5, 5, max(map(len, values)) + 10)


def test_encoded_records_are_a_batch_behind_those_sent_before() -> None:
    bench = Bench(partitions=2, linger_ms=1000)
    bench.send(b"before", partition=1)
    batch = bench.accumulator.send_encoded(TOPIC, 1, encoded(b"a", b"b"))
    assert batch is not None
    bench.send(b"behind", partition=1)
    bench.now += 2
    taken = []
    for _ in range(3):
        one = bench.take(1)
        taken.append((one.sequence, values_in(one)))
        bench.stored(one)
    assert taken == [(0, [b"before"]), (1, [b"a", b"b"]), (3, [b"behind"])]
    assert batch.state == BatchState.ACKNOWLEDGED
    assert bench.accumulator.buffered == 0


def test_encoded_records_wait_for_room_and_wake_the_sender() -> None:
    bench = Bench(buffer_memory=1000)
    assert bench.accumulator.send_encoded(TOPIC, 0, encoded(b"x" * 700)) is not None
    assert bench.wakes == 1
    assert bench.accumulator.send_encoded(TOPIC, 0, encoded(b"x" * 400)) is None
    assert bench.accumulator.send_encoded("other", 0, encoded(b"x")) is None
    with pytest.raises(RecordTooLargeError):
        bench.accumulator.send_encoded(TOPIC, 0, encoded(b"x" * 2000))
    with pytest.raises(UnknownTopicError):
        bench.accumulator.send_encoded(TOPIC, 1, encoded(b"x"))
    bench.accumulator.refuse(ClosedError("closed"))
    with pytest.raises(ClosedError):
        bench.accumulator.send_encoded(TOPIC, 0, encoded(b"x"))


def test_whole_batches_go_round_the_partitions_that_keep_up() -> None:
    bench = Bench(partitions=4)
    assert sorted(bench.state.spread(4)) == [0, 1, 2, 3]
    assert len({bench.state.spread(1)[0] for _ in range(200)}) == 4
    for _ in range(6):
        bench.accumulator.send_encoded(TOPIC, 2, encoded(b"x"))
    assert set(bench.state.spread(20)) == {0, 1, 3}
    bench.state.update(NO_TOPIC_ID, [0, 0, 0, -1], [0, 1, 2])
    assert set(bench.state.spread(20)) == {0, 1}


def test_keys_decide_unless_they_are_ignored() -> None:
    bench = Bench(partitions=12)
    bench.send(b"", key=b"foobar")
    assert bench.head(6) is not None  # as the Java client has it
    ignoring = Bench(partitions=12, partitioner_ignore_keys=True, batch_size=100_000)
    for number in range(50):
        ignoring.send(b"", key=b"%d" % number)
    assert sum(ignoring.head(p) is not None for p in range(12)) == 1


def state(partitions: int, *, adaptive: bool = True) -> TopicState:
    made = TopicState("t", 1000, 1 << 20, adaptive, Random(1))
    made.update(NO_TOPIC_ID, [0] * partitions, list(range(partitions)))
    return made


def some_batch() -> ProducerBatch:
    return ProducerBatch(Home(), "t", 0, 0, BatchBuilder(), 0.0)


def test_records_without_a_key_stick_for_a_batch_and_then_move() -> None:
    topic = state(8)
    seen: Counter[int] = Counter()
    for _ in range(400):
        queue = topic.sticky()
        assert topic.sticky() is queue
        topic.stuck(queue, 999)
        assert topic.sticky() is queue
        topic.stuck(queue, 1)
        seen[queue.partition] += 1
    assert set(seen) == set(range(8))
    assert min(seen.values()) > 20


def test_an_open_batch_holds_the_stuck_partition_up_to_twice_its_size() -> None:
    topic = state(50)
    queue = topic.sticky()
    queue.open = some_batch()
    topic.stuck(queue, 1500)
    assert topic.sticky() is queue
    topic.stuck(queue, 499)
    assert topic.sticky() is queue
    topic.stuck(queue, 1)
    seen = set()
    for _ in range(20):
        chosen = topic.sticky()
        seen.add(chosen.partition)
        topic.stuck(chosen, 2000)
    assert len(seen) > 1


def test_partitions_with_long_queues_get_less() -> None:
    for adaptive in (True, False):
        topic = state(2, adaptive=adaptive)
        for _ in range(5):
            topic.queues[0].waiting.append(some_batch())
        seen: Counter[int] = Counter()
        for _ in range(600):
            queue = topic.sticky()
            seen[queue.partition] += 1
            topic.stuck(queue, 1000)
        share = seen[0] / 600
        assert share < 0.35 if adaptive else share > 0.4


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    topic = state(4)
    chosen = topic.sticky().partition
    left = [number for number in range(4) if number != chosen]
    topic.update(NO_TOPIC_ID, [-1 if n == chosen else 0 for n in range(4)], left)
    assert topic.sticky().partition in left
    topic.update(NO_TOPIC_ID, [-1] * 4, [])
    assert topic.sticky().partition in range(4)


def test_compression_lets_more_records_into_a_batch_until_the_broker_complains() -> None:
    queue = PartitionQueue("t", 0, 1000, 1 << 20)
    for _ in range(200):
        queue.compressed(1000, 250)
    assert 3000 < queue.limit < 4000
    assert queue.limit < queue.grown_limit
    queue.compressed(1000, 900)
    assert queue.limit < 1100
    queue.too_large()
    assert queue.limit == queue.grown_limit == 1000


@pytest.mark.parametrize("timestamp", [-1, 2**63, 2**70])
def test_a_timestamp_that_no_record_can_hold_leaves_no_trace(timestamp: int) -> None:
    bench = Bench(linger_ms=0)
    bench.send(b"before")
    with pytest.raises(ValueError, match="in milliseconds since 1970"):
        bench.accumulator.send(TOPIC, b"x", None, (), None, timestamp)
    with pytest.raises(ValueError, match="in milliseconds since 1970"):
        bench.accumulator.send_many(TOPIC, [b"x"], None, (), None, timestamp, 0, [])
    assert values_in(bench.take()) == [b"before"]
