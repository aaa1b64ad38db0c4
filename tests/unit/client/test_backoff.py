"""Pauses between attempts, for requests and for connections."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from moldau.client.backoff import Backoff, Reconnects, pause_after, retrying
from moldau.client.errors import ConnectionLostError, TimedOutError, UnknownTopicError
from moldau.errors import ErrorCode, KafkaError

RANDOM = Random(1)


def test_pauses_double_up_to_the_longest_give_or_take_a_fifth() -> None:
    for failures, middle in ((1, 0.1), (2, 0.2), (3, 0.4), (5, 1.0), (10_000, 1.0)):
        for _ in range(50):
            assert 0.8 * middle <= pause_after(failures, 0.1, 1.0, RANDOM) <= 1.2 * middle


def test_an_address_that_fails_is_tried_later_and_with_more_patience() -> None:
    reconnects = Reconnects(RANDOM, 0.05, 1.0, 10.0, 30.0)
    assert (reconnects.not_before, reconnects.setup_timeout) == (0.0, 10.0)
    assert 0.04 <= reconnects.failed(100.0) <= 0.06
    assert 100.04 <= reconnects.not_before <= 100.06
    assert reconnects.setup_timeout == 20.0
    assert 0.08 <= reconnects.failed(200.0) <= 0.12
    assert reconnects.setup_timeout == 30.0
    reconnects.succeeded()
    assert (reconnects.failures, reconnects.not_before, reconnects.setup_timeout) == (0, 0.0, 10.0)


async def test_what_is_retriable_is_retried_until_it_succeeds() -> None:
    attempts: list[int] = []
    recovered: list[Exception] = []

    async def attempt() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionLostError("lost")
        return "done"

    async def recover(error: Exception) -> None:
        recovered.append(error)

    assert await retrying(attempt, Backoff(RANDOM, 30), recover=recover) == "done"
    assert (len(attempts), len(recovered)) == (3, 2)


async def test_what_is_not_retriable_is_raised_at_once() -> None:
    async def attempt() -> None:
        raise UnknownTopicError("t")

    with pytest.raises(UnknownTopicError):
        await retrying(attempt, Backoff(RANDOM, 30))


async def test_the_last_failure_is_raised_when_time_is_over() -> None:
    async def attempt() -> None:
        raise ConnectionLostError("lost")

    with pytest.raises(ConnectionLostError, match="lost"):
        await retrying(attempt, Backoff(RANDOM, 0.01))


async def test_an_attempt_that_hangs_is_called_off() -> None:
    async def attempt() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimedOutError, match=r"Not done after 0\.01 s"):
        await retrying(attempt, Backoff(RANDOM, 0.01))


async def test_no_pause_goes_past_the_deadline() -> None:
    backoff = Backoff(RANDOM, 0.0)
    assert backoff.remaining == 0.0
    with pytest.raises(ConnectionLostError):
        await backoff.pause(ConnectionLostError("lost"))


async def test_running_out_of_time_names_the_last_reason() -> None:
    attempts = 0

    async def attempt() -> str:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            await asyncio.Event().wait()
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody coordinates that")

    while attempts < 2:  # a machine that stands still has no time for a second attempt
        attempts = 0
        with pytest.raises(KafkaError, match="nobody coordinates that") as caught:
            await retrying(attempt, Backoff(RANDOM, 0.2))
    assert isinstance(caught.value, TimedOutError)
