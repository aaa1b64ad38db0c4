"""Answers, retries, splits, timeouts: one fate for each record, and the right numbers."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from tests.unit.client.producer.harness import Bench, values_in

from moldau.client.errors import ClosedError, DeliveryTimeoutError, TimedOutError
from moldau.client.producer.batch import Delivery, ManyDelivery, ProducerBatch
from moldau.client.producer.identity import MAX_EPOCH, ProducerIdentity
from moldau.errors import ErrorCode, KafkaError
from moldau.records.batch import read_header


def one_record_batches(count: int, **settings: Any) -> tuple[Bench, list[Delivery]]:
    bench = Bench(batch_size=0, **settings)
    return bench, [bench.send(b"%d" % number, timestamp=number) for number in range(count)]


def test_an_acknowledgement_places_every_record() -> None:
    bench = Bench(linger_ms=0)
    first, second = bench.send(b"a", timestamp=5), bench.send(b"b", timestamp=6)
    assert not first.done()
    assert repr(first) == "<Delivery to t-0: pending>"
    bench.stored(bench.take(), 40)
    assert first.batch.data is None  # whoever keeps a delivery does not keep the bytes
    assert first.result() == ("t", 0, 40, 5)
    assert second.result() == ("t", 0, 41, 6)
    assert repr(second) == "<Delivery to t-0: at offset 41>"
    third = bench.send(b"c", timestamp=7)
    bench.stored(bench.take(), 42, append_time=99)
    assert third.result().timestamp == 99


def test_a_failure_is_raised_for_every_record_and_called_back_once() -> None:
    bench = Bench(linger_ms=0)
    calls: list[Delivery] = []
    deliveries = [bench.send(b"x") for _ in range(3)]
    for delivery in deliveries:
        delivery.add_done_callback(calls.append)
    bench.refused(bench.take(), ErrorCode.INVALID_RECORD)
    assert calls == deliveries
    for delivery in deliveries:
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            delivery.result()
        assert "failed" in repr(delivery)
    deliveries[0].add_done_callback(calls.append)
    assert len(calls) == 4
    assert bench.accumulator.buffered == 0


def test_a_failing_callback_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(linger_ms=0)
    first, second = bench.send(b"a"), bench.send(b"b")
    seen: list[Delivery] = []
    first.add_done_callback(lambda _: 1 / 0)
    second.add_done_callback(seen.append)
    bench.stored(bench.take())
    assert seen == [second]
    assert "a delivery callback failed" in caplog.text


def test_retries_pause_longer_each_time_and_end_after_retries() -> None:
    bench, (delivery,) = one_record_batches(1, retries=3)
    pauses = []
    for _ in range(3):
        batch = bench.take()
        bench.refused(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert not bench.may_send()
        pauses.append(batch.not_before - bench.now)
        bench.now = batch.not_before
    assert [0.08, 0.16, 0.32] < pauses < [0.12, 0.24, 0.48]
    bench.refused(bench.take(), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        delivery.result()


def test_retries_keep_the_order_and_the_bytes() -> None:
    bench, _ = one_record_batches(4)
    bench.stored(bench.take())
    second, third, fourth = bench.take(), bench.take(), bench.take()
    bytes_before = bytes(third.data or b"")
    for batch in (fourth, second, third):  # answers may come in any order
        bench.refused(batch, ErrorCode.NETWORK_EXCEPTION)
    bench.now += 10
    assert list(bench.queue().waiting) == [second, third, fourth]
    assert bench.take() is second
    assert not bench.may_send()  # alone, until it is settled
    bench.stored(second)
    assert bench.take() is third
    assert bytes(third.data or b"") == bytes_before


def test_the_first_batch_goes_alone_until_the_broker_knows_the_producer() -> None:
    bench, _ = one_record_batches(8)
    first = bench.take()
    assert not bench.may_send()
    bench.stored(first)
    for _ in range(5):
        bench.take()
    assert not bench.may_send()  # brokers remember five


def test_nothing_is_sent_that_would_make_the_broker_forget_a_batch_under_way() -> None:
    """It hangs at a leader that is gone, while others are stored by the next one."""
    bench, _ = one_record_batches(8)
    bench.stored(bench.take())
    hanging = bench.take()
    for _ in range(4):
        bench.stored(bench.take())
    assert not bench.may_send()
    bench.stored(hanging)
    assert bench.may_send()


def test_a_duplicate_is_a_success_without_a_known_place() -> None:
    bench, (delivery,) = one_record_batches(1)
    bench.refused(bench.take(), ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert delivery.result().offset == -1


def test_out_of_order_behind_a_retry_means_nothing() -> None:
    bench, deliveries = one_record_batches(3)
    bench.stored(bench.take(), 0)
    second, third = bench.take(), bench.take()
    bench.refused(second, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.refused(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now += 10
    assert not bench.queue().must_reset
    bench.stored(bench.take(), 1)
    bench.stored(bench.take(), 2)
    assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2]
    assert (bench.identity.producer_id, bench.identity.epoch) == (7, 0)


def test_what_follows_a_lost_batch_starts_anew_in_the_next_epoch() -> None:
    bench, deliveries = one_record_batches(4)
    bench.stored(bench.take(), 0)
    lost, third, fourth = bench.take(), bench.take(), bench.take()
    bench.refused(lost, ErrorCode.INVALID_RECORD)
    bench.refused(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now += 10
    assert not bench.may_send()  # one is still under way under the old numbers
    bench.refused(fourth, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now += 10
    assert bench.take() is third
    header = read_header(third.data or b"")
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)
    bench.stored(third, 1)
    assert bench.take() is fourth
    assert read_header(fourth.data or b"").base_sequence == 1
    bench.stored(fourth, 2)
    assert deliveries[1].exception() is not None
    assert [deliveries[n].result().offset for n in (2, 3)] == [1, 2]


def test_other_partitions_finish_an_epoch_before_they_change_to_the_next() -> None:
    bench = Bench(partitions=2, batch_size=0)
    for partition in (0, 0, 1, 1, 1):
        bench.send(b"x", partition=partition)
    bench.stored(bench.take(0))
    bench.stored(bench.take(1))
    under_way = bench.take(1)
    bench.refused(bench.take(0), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now += 10
    again = bench.take(0)
    assert read_header(again.data or b"").producer_epoch == 1
    assert not bench.may_send(1)
    bench.stored(under_way)
    fresh = bench.take(1)
    header = read_header(fresh.data or b"")
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_after_the_last_epoch_another_id_is_needed() -> None:
    identity = ProducerIdentity()
    identity.adopt(7, MAX_EPOCH)
    identity.bump()
    assert not identity.is_known


def test_sequence_numbers_wrap_around() -> None:
    bench, _ = one_record_batches(3)
    bench.stored(bench.take())
    bench.queue().next_sequence = 2**31 - 1
    assert bench.take().sequence == 2**31 - 1
    assert bench.take().sequence == 0


def test_a_batch_too_large_is_halved_until_it_fits() -> None:
    bench = Bench(linger_ms=0, batch_size=100_000)
    deliveries = [bench.send(b"%d" % number) for number in range(10)]
    calls: list[Delivery] = []
    for delivery in deliveries:
        delivery.add_done_callback(calls.append)
    many = ManyDelivery([(deliveries[0].batch, 0, 10)], 0)
    offset = 0
    stored: list[bytes | None] = []
    while bench.head() is not None:
        bench.now += 10
        batch = bench.take()
        if batch.count > 2:
            bench.refused(batch, ErrorCode.MESSAGE_TOO_LARGE)
        else:
            stored += values_in(batch)
            bench.stored(batch, offset)
            offset += batch.count
    assert stored == [b"%d" % number for number in range(10)]
    assert [delivery.result().offset for delivery in deliveries] == list(range(10))
    assert calls == deliveries
    assert [place.offset for place in many.result(0)] == list(range(10))
    assert bench.accumulator.buffered == 0
    assert not bench.accumulator.incomplete
    assert not bench.accumulator.active


def test_halves_keep_the_sequence_numbers_of_their_records() -> None:
    bench = Bench(linger_ms=0, batch_size=100_000)
    for number in range(4):
        bench.send(b"%d" % number)
    bench.refused(bench.take(), ErrorCode.MESSAGE_TOO_LARGE)
    for number in (0, 2):
        half = bench.take()
        assert read_header(half.data or b"").base_sequence == number
        bench.stored(half)


def test_records_fail_when_their_time_is_over() -> None:
    bench = Bench(linger_ms=0, delivery_timeout_ms=30_000, batch_size=0)
    waiting, under_way = bench.send(b"a"), bench.send(b"b")
    batch = bench.take()
    bench.now += 10
    later = bench.send(b"c")
    assert bench.outcomes.expire(bench.now) == pytest.approx(130.0)
    bench.now = 130.0
    assert bench.outcomes.expire(bench.now) == pytest.approx(140.0)
    for delivery in (waiting, under_way):
        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
    assert "after 1 attempt" in str(waiting.exception())
    assert "never sent" in str(under_way.exception())
    assert not later.done()
    bench.stored(batch)  # too late: it has failed
    assert isinstance(waiting.exception(), DeliveryTimeoutError)


def test_a_retry_that_would_be_too_late_is_not_made() -> None:
    bench, (delivery,) = one_record_batches(1, delivery_timeout_ms=30_000, linger_ms=0)
    batch = bench.take()
    bench.now += 31
    bench.refused(batch, ErrorCode.NETWORK_EXCEPTION)
    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, KafkaError)


def test_a_flush_waits_for_what_was_there_and_not_for_what_comes() -> None:
    bench, _ = one_record_batches(2)
    flushed: list[str] = []
    assert bench.outcomes.when_flushed(lambda: flushed.append("first"))
    bench.send(b"later")
    bench.stored(bench.take())
    assert flushed == []
    bench.refused(bench.take(), ErrorCode.INVALID_RECORD)
    assert flushed == ["first"]
    bench.stored(bench.take())
    assert not bench.outcomes.when_flushed(lambda: flushed.append("nothing"))
    assert flushed == ["first"]


def test_a_flush_waits_for_both_halves() -> None:
    bench = Bench(linger_ms=0, batch_size=100_000)
    bench.send(b"a")
    bench.send(b"b")
    flushed: list[bool] = []
    bench.outcomes.when_flushed(lambda: flushed.append(True))
    bench.refused(bench.take(), ErrorCode.MESSAGE_TOO_LARGE)
    bench.stored(bench.take())
    assert not flushed
    bench.stored(bench.take())
    assert flushed


def test_giving_up_fails_everything_or_only_what_waits() -> None:
    bench, deliveries = one_record_batches(3)
    under_way = bench.take()
    bench.outcomes.fail_all(ClosedError("over"), bench.now, sent_too=False)
    assert [delivery.done() for delivery in deliveries] == [False, True, True]
    bench.outcomes.fail_all(ClosedError("over"), bench.now)
    assert deliveries[0].done()
    bench.stored(under_way)
    assert isinstance(deliveries[0].exception(), ClosedError)


def test_waiting_from_another_thread() -> None:
    bench = Bench(linger_ms=0)
    delivery = bench.send(b"a")
    with pytest.raises(TimedOutError, match="not acknowledged yet"):
        delivery.result(0.01)
    with pytest.raises(TimedOutError):
        delivery.exception(0)
    got: list[int] = []
    waiter = threading.Thread(target=lambda: got.append(delivery.result(60).offset))
    waiter.start()
    bench.stored(bench.take(), 5)
    waiter.join()
    assert got == [5]


def test_the_log_says_once_why_records_failed(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(linger_ms=0, delivery_timeout_ms=1000, request_timeout_ms=1000)
    bench.send(b"a")
    bench.refused(bench.take(), ErrorCode.INVALID_RECORD)
    (line,) = caplog.messages
    assert line.startswith("1 record for t-0 failed after 1 attempt: ")
    caplog.clear()
    bench.send(b"b")
    bench.send(b"c")
    bench.now += 2
    bench.outcomes.expire(bench.now)
    assert caplog.messages == [
        "2 records for t-0: not acknowledged within delivery.timeout.ms (1 s), never sent"
    ]


class Broker:
    """Loses requests and answers, and remembers sequence numbers as brokers do."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._known: dict[tuple[int, int], int] = {}
        self._next: tuple[int, int] | None = None
        self.log: list[bytes | None] = []

    def answer(self, bench: Bench, batch: ProducerBatch) -> None:
        fate = self._rng.random()
        if fate < 0.15:
            bench.refused(batch, ErrorCode.NETWORK_EXCEPTION)  # never arrived
            return
        if fate < 0.2:
            bench.refused(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        code, offset = self._append(batch)
        if fate < 0.35:
            bench.refused(batch, ErrorCode.NETWORK_EXCEPTION)  # the answer was lost
        elif code is ErrorCode.NONE:
            bench.stored(batch, offset)
        else:
            bench.refused(batch, code)

    def _append(self, batch: ProducerBatch) -> tuple[ErrorCode, int]:
        header = read_header(batch.data or b"")
        place = header.base_sequence, header.producer_epoch
        if place in self._known:
            return ErrorCode.NONE, self._known[place]
        if self._next is not None and place != self._next:
            newer = header.producer_epoch > self._next[1] and header.base_sequence == 0
            if not newer:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self._known[place] = len(self.log)
        self.log += values_in(batch)
        self._next = header.base_sequence + batch.count, header.producer_epoch
        return ErrorCode.NONE, self._known[place]


@pytest.mark.parametrize("seed", range(40))
def test_random_answers_never_lose_repeat_or_reorder(seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench(batch_size=rng.choice([0, 60, 200]), linger_ms=0, retries=10**6)
    broker = Broker(rng)
    deliveries = [bench.send(b"%d" % number) for number in range(120)]
    under_way: list[ProducerBatch] = []
    while bench.accumulator.incomplete:
        bench.now += rng.uniform(0, 0.05)
        if bench.head() is not None and bench.may_send() and len(under_way) < 5:
            under_way.append(bench.take())
        elif under_way:
            broker.answer(bench, under_way.pop(0))
    assert broker.log == [b"%d" % number for number in range(120)]
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(120))
