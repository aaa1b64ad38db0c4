"""The event loop stands still, and the broker says so."""

from __future__ import annotations

import pytest

from moldau.broker.stalls import INTERVAL_S, Stalls
from moldau.testing.clock import ManualClock
from moldau.wire.api import ApiKey


class BusyClock(ManualClock):
    def stand_still(self, seconds: float) -> None:
        """Time passes, and what becomes due has to wait."""
        self._elapsed += seconds


class Loop:
    def __init__(self) -> None:
        self.clock = BusyClock()
        self.requests: dict[int, int] = dict.fromkeys(ApiKey, 0)
        self.stalls = Stalls(self.clock, self.requests)
        self.stalls.watch()

    def turn(self, late_s: float, **asked: int) -> None:
        for name, number in asked.items():
            self.requests[ApiKey[name]] += number
        self.clock.stand_still(INTERVAL_S + late_s)
        self.clock.run_due()


def test_the_longest_turn_counts_for_the_costliest_api(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    loop.turn(0.0, FETCH=20)
    loop.turn(0.3, FETCH=20, METADATA=1, HEARTBEAT=1)
    loop.turn(0.05, METADATA=7)
    assert loop.stalls.longest_ms["Metadata"] == pytest.approx(300)
    assert "stood still for 300 ms" in caplog.text
    assert "Metadata (1), Fetch (20), Heartbeat (1)" in caplog.text


def test_of_equal_ones_the_rarest_is_suspected() -> None:
    loop = Loop()
    loop.turn(0.2, PRODUCE=500, LIST_OFFSETS=1)
    assert loop.stalls.longest_ms == pytest.approx({"ListOffsets": 200})


def test_a_stall_without_requests_has_another_cause(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    loop.turn(0.15)
    assert loop.stalls.longest_ms == pytest.approx({"other": 150})
    assert "requests in the meantime: none" in caplog.text


def test_stalls_of_one_kind_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    for _ in range(10):
        loop.turn(0.2, METADATA=1)
    assert caplog.text.count("stood still") == 1
    loop.turn(0.2, CREATE_TOPICS=1)
    assert caplog.text.count("stood still") == 2
    loop.clock.advance(61)
    loop.turn(0.2, METADATA=1)
    assert "9 similar lines were left out" in caplog.text


def test_nobody_looks_after_the_end() -> None:
    loop = Loop()
    loop.stalls.stop()
    loop.turn(5.0, METADATA=1)
    assert not loop.stalls.longest_ms
