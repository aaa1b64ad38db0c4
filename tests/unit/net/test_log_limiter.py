"""The log of a listener under peers that send whatever they like."""

from __future__ import annotations

import logging
import random

import pytest

from moldau.net.garbage import describe_garbage
from moldau.net.log_limiter import LogLimiter
from moldau.testing.clock import ManualClock

LOGGER = logging.getLogger("moldau.net.test")


def test_few_lines_of_a_kind_then_their_number(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    limiter = LogLimiter(LOGGER, clock.monotonic, lines=2)
    for number in range(7):
        limiter.warning("kind", f"line {number}")
    assert caplog.messages == ["line 0", "line 1"]
    clock.advance(10.0)
    limiter.warning("kind", "again")
    assert caplog.messages[2:] == ["again (5 similar lines were left out before this one)"]


def test_more_kinds_than_allowed_count_as_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    limiter = LogLimiter(LOGGER, clock.monotonic, lines=2, kinds=10)
    for number in range(1000):
        limiter.warning(f"kind {number}", "line")
    assert len(caplog.messages) == 10 + 2
    clock.advance(10.0)
    limiter.warning("kind 999", "later")
    assert caplog.messages[-1] == "later"


def test_what_garbage_is_called_depends_on_none_of_its_bytes() -> None:
    chance = random.Random(1)
    kinds = {
        describe_garbage(chance.randbytes(8), chance.randint(-(2**31), 2**31 - 1), 1000).kind
        for _ in range(20_000)
    }
    assert kinds <= {"TLS", "HTTP", "SSH", "negative size", "large size"}
