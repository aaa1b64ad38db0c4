"""Rates and buckets, against figures of Kafka's formulas."""

from __future__ import annotations

import sys
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.quotas.meters import Rate, TokenBucket, Window

WINDOW = Window(11, 1000)
"""Kafka's defaults."""
START = 5_000_000


def steady(value: float, seconds: int = 10) -> Rate:
    """A client that did the same in each of the last seconds."""
    rate = Rate(WINDOW)
    for second in range(seconds):
        rate.record(value, 0, START + second * 1000)
    return rate


def test_a_spike_is_held_back_until_the_window_has_grown() -> None:
    rate = steady(400)
    assert rate.throttle_ms(500, START + 9000) == 0
    now = START + 10_500
    rate.record(2300, 500, now)
    # (10 * 400 + 2300) / 10.5 s is 600 a second: (600 - 500) / 500 * 10.5 s
    assert rate.measure(now) == pytest.approx(600)
    assert rate.throttle_ms(500, now) == 2100


def test_the_first_request_counts_for_ten_seconds() -> None:
    rate = Rate(WINDOW)
    rate.record(20_000, 0, START)
    assert rate.measure(START) == pytest.approx(2000)
    assert rate.throttle_ms(2000, START) == 0
    assert rate.throttle_ms(1000, START) == 10_000


def test_a_wait_is_no_longer_than_an_answer_can_say() -> None:
    rate = Rate(WINDOW)
    rate.record(10**12, 0, START)
    assert rate.throttle_ms(1, START) == 2**31 - 1


@pytest.mark.parametrize("quota", [0.0, -1.0, 1e-310, 1e-30])
@pytest.mark.parametrize("meter", [Rate, TokenBucket])
def test_no_quota_is_too_small_to_reckon_with(
    meter: type[Rate | TokenBucket], quota: float
) -> None:
    used = meter(WINDOW)
    used.record(100, quota, START)
    assert used.throttle_ms(quota, START) == 2**31 - 1


@pytest.mark.parametrize("quota", [1e305, sys.float_info.max, inf, nan])
@pytest.mark.parametrize("meter", [Rate, TokenBucket])
def test_no_quota_is_too_large_to_reckon_with(
    meter: type[Rate | TokenBucket], quota: float
) -> None:
    used = meter(WINDOW)
    for now_ms in (START, START, START + 1000):
        used.record(100, quota, now_ms)
        assert used.throttle_ms(quota, now_ms) == 0


HOUR = 3_600_000


def test_a_bucket_loses_nothing_when_the_clock_is_put_back() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.record(1, 5, START)
    assert bucket.measure(5, START - HOUR) == 54
    assert bucket.measure(5, START - HOUR + 200) == 55


def test_a_rate_goes_on_when_the_clock_is_put_back() -> None:
    rate = steady(400)
    before = rate.measure(START + 9000)
    assert rate.measure(START + 9000 - HOUR) == pytest.approx(before)
    for second in range(10, 60):
        rate.record(400, 0, START + second * 1000 - HOUR)
    assert rate.measure(START + 59_000 - HOUR) == pytest.approx(4400 / 10)
    assert rate.is_idle(START + 80_000 - HOUR)


@pytest.mark.parametrize(
    ("after_ms", "rate"), [(0, 100), (500, 1000 / 10.5), (10_999, 1000 / 10.999)]
)
def test_a_rate_falls_while_its_client_rests(after_ms: int, rate: float) -> None:
    meter = Rate(WINDOW)
    meter.record(1000, 0, START)
    assert meter.measure(START + after_ms) == pytest.approx(rate)
    assert not meter.is_idle(START + after_ms)


def test_what_is_older_than_the_window_is_forgotten() -> None:
    meter = Rate(WINDOW)
    meter.record(1000, 0, START)
    assert meter.measure(START + 11_000) == 0
    assert meter.is_idle(START + 11_000)


def test_a_sample_that_overlaps_the_window_counts_whole() -> None:
    meter = Rate(WINDOW)
    meter.record(1000, 0, START)
    meter.record(1000, 0, START + 900)
    meter.record(500, 0, START + 11_500)
    assert meter.measure(START + 11_500) == pytest.approx(2500 / 11.5)


def test_what_is_taken_back_was_never_there() -> None:
    meter = steady(400)
    before = meter.measure(START + 9000)
    meter.record(10_000, 0, START + 9000)
    meter.record(-10_000, 0, START + 9000)
    assert meter.measure(START + 9000) == pytest.approx(before)


class Ring:
    """Kafka's own way to keep samples: a ring of one more than the window has, which are reset when
    nothing happened in them for a whole window.
    """

    def __init__(self, now: int) -> None:
        self.samples = [[now, now, 0.0]]
        self.current = 0

    def record(self, value: float, now: int) -> None:
        if now - self.samples[self.current][0] >= WINDOW.sample_ms:
            self.current = (self.current + 1) % (WINDOW.samples + 1)
            if self.current == len(self.samples):
                self.samples.append([])
            self.samples[self.current] = [now, now, 0.0]
        self.samples[self.current][1:] = [now, self.samples[self.current][2] + value]

    def measure(self, now: int) -> float:
        for sample in self.samples:
            if now - sample[1] >= WINDOW.span_ms:
                sample[:] = [now, now, 0.0]
        elapsed = now - min(start for start, _, _ in self.samples)
        missing = WINDOW.samples - 1 - elapsed // WINDOW.sample_ms
        elapsed += max(missing, 0) * WINDOW.sample_ms
        return sum(value for _, _, value in self.samples) / max(elapsed, 1) * 1000


@given(st.lists(st.tuples(st.integers(0, 13_000), st.integers(1, 10_000)), min_size=1, max_size=60))
def test_a_rate_is_that_of_kafkas_ring(steps: list[tuple[int, int]]) -> None:
    rate, ring = Rate(WINDOW), Ring(START)
    now = START - steps[0][0]
    for pause, value in steps:
        now += pause
        rate.record(value, 0, now)
        ring.record(value, now)
        assert rate.measure(now) == pytest.approx(ring.measure(now))
    assert len(rate._samples) <= WINDOW.samples + 1


def test_a_bucket_lets_a_burst_through_and_collects_the_debt() -> None:
    bucket = TokenBucket(Window(10, 1000))
    assert bucket.measure(10, START) == 100
    bucket.record(110, 10, START)
    assert bucket.measure(10, START) == -10
    assert bucket.throttle_ms(10, START) == 1000
    assert bucket.throttle_ms(10, START + 400) == 600
    assert bucket.throttle_ms(10, START + 1000) == 0
    assert not bucket.is_idle(START + 1000)
    assert bucket.is_idle(START + 11_000)


def test_a_bucket_holds_no_more_than_a_window_is_worth() -> None:
    bucket = TokenBucket(Window(10, 1000))
    bucket.record(1, 10, START)
    assert bucket.measure(10, START + 3_600_000) == 100
    bucket.record(-50, 10, START + 3_600_000)
    assert bucket.measure(10, START + 3_600_000) == 100


def test_a_bucket_follows_a_changed_quota() -> None:
    bucket = TokenBucket(Window(10, 1000))
    bucket.record(100, 10, START)
    assert bucket.measure(2, START + 1000) == 2
    assert bucket.measure(2, START + 60_000) == 20
    assert TokenBucket(Window(10, 1000)).is_idle(START)
