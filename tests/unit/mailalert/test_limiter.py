"""The rate limiter, on virtual time and with real threads."""

from __future__ import annotations

import heapq
import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.mailalert.limiter import COLD_FACTOR, RateLimiter, TokenBucket

RATES = st.floats(0.5, 1000)
GAPS = st.lists(st.floats(0, 3), min_size=1, max_size=200)


def granted(bucket: TokenBucket, arrivals: list[float]) -> list[float]:
    return [now + bucket.reserve(now) for now in arrivals]


def arrivals_of(gaps: list[float]) -> list[float]:
    times, now = [], 0.0
    for gap in gaps:
        now += gap
        times.append(now)
    return times


@given(RATES, st.integers(1, 50), GAPS)
def test_no_span_of_time_sees_more_than_burst_and_rate(
    rate: float, burst: int, gaps: list[float]
) -> None:
    times = granted(TokenBucket(rate, burst=burst), arrivals_of(gaps))
    for first in range(len(times)):
        for last in range(first, len(times)):
            span = times[last] - times[first]
            assert last - first + 1 <= burst + rate * span + 1e-6


@given(RATES, st.integers(1, 50), GAPS)
def test_callers_are_served_in_the_order_in_which_they_came(
    rate: float, burst: int, gaps: list[float]
) -> None:
    times = granted(TokenBucket(rate, burst=burst), arrivals_of(gaps))
    assert all(earlier <= later + 1e-9 for earlier, later in pairwise(times))


@given(RATES, st.integers(1, 50), st.integers(1, 300))
def test_under_constant_demand_nothing_is_held_back(rate: float, burst: int, count: int) -> None:
    times = granted(TokenBucket(rate, burst=burst), [0.0] * count)
    assert times[-1] == pytest.approx(max(0, count - burst) / rate)


@given(RATES, GAPS)
def test_a_caller_who_comes_late_enough_does_not_wait(rate: float, gaps: list[float]) -> None:
    bucket = TokenBucket(rate)
    last = arrivals_of(gaps)[-1] + max(granted(bucket, arrivals_of(gaps)))
    assert bucket.wait_for(last + 1 / rate + 1e-6) == 0


def test_with_a_burst_of_one_no_second_sees_more_than_the_rate() -> None:
    times = granted(TokenBucket(200), [0.0] * 2000)
    for start in times:
        assert sum(start <= time < start + 1 - 1e-9 for time in times) <= 200


@given(st.floats(1, 100), st.floats(0.5, 20))
def test_a_cold_limiter_starts_slowly_and_reaches_its_rate(rate: float, warm_up: float) -> None:
    bucket = TokenBucket(rate, warm_up=warm_up)
    count = int(rate * warm_up * 3) + 20
    times = granted(bucket, [0.0] * count)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[0] <= COLD_FACTOR / rate + 1e-9
    assert gaps[0] > 1 / rate
    assert gaps[-1] == pytest.approx(1 / rate)
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(gaps))


def test_it_cools_down_while_idle() -> None:
    bucket = TokenBucket(100, warm_up=1.0)
    warm = granted(bucket, [0.0] * 500)[-1]
    assert bucket.wait_for(warm + 0.01) == 0
    later = warm + 60
    first, second = granted(bucket, [later, later])
    assert second - first > 1 / 100


def test_more_permits_than_the_burst_are_paid_for_by_the_next() -> None:
    bucket = TokenBucket(10, burst=2)
    assert bucket.reserve(0.0, 12) == 0
    assert bucket.reserve(0.0) == pytest.approx(1.1)


def test_a_time_out_takes_nothing() -> None:
    now = 0.0
    slept: list[float] = []
    limiter = RateLimiter(10, clock=lambda: now, sleep=slept.append)
    assert limiter.acquire()
    assert not limiter.acquire(timeout=0.05)
    assert not limiter.try_acquire()
    assert limiter.acquire(timeout=0.2)
    assert slept == [pytest.approx(0.1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "rate is 0"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"rate": 1, "burst": 0}, "burst is 0"),
        ({"rate": 1, "warm_up": -1}, "warm_up is -1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], message: str) -> None:
    rate = options.pop("rate")
    with pytest.raises(ValueError, match=message):
        RateLimiter(rate, **options)  # type: ignore[arg-type]


class VirtualTime:
    """A clock for threads: it moves on to the next sleeper when all of them sleep."""

    def __init__(self, threads: int) -> None:
        self._changed = threading.Condition()
        self._awake = threads
        self._sleepers: list[float] = []
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        with self._changed:
            until = self._now + seconds
            heapq.heappush(self._sleepers, until)
            self._one_less()
            self._changed.wait_for(lambda: self._now >= until)

    def leave(self) -> None:
        with self._changed:
            self._one_less()

    def _one_less(self) -> None:
        self._awake -= 1
        if not self._awake and self._sleepers:
            self._now = self._sleepers[0]
            while self._sleepers and self._sleepers[0] <= self._now:
                heapq.heappop(self._sleepers)
                self._awake += 1
            self._changed.notify_all()


def test_threads_share_the_permits_fairly() -> None:
    """Whoever comes back from its turn waits behind all others: they take turns exactly."""
    threads, turns = 4, 100
    time = VirtualTime(threads)
    limiter = RateLimiter(200, clock=time.now, sleep=time.sleep)
    moments: list[list[float]] = [[] for _ in range(threads)]
    all_there = threading.Barrier(threads)

    def work(number: int) -> None:
        all_there.wait()
        for _ in range(turns):
            limiter.acquire()
            moments[number].append(time.now())
        time.leave()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    everything = sorted(moment for own in moments for moment in own)
    assert everything == pytest.approx([number / 200 for number in range(threads * turns)])
    for own in moments:
        # The very first permit needs no waiting, and so its thread asks again at once.
        gaps = [later - earlier for earlier, later in pairwise(own)]
        assert all(gap == pytest.approx(threads / 200) for gap in gaps[1:-threads])
