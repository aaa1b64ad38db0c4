"""Trying again: exponential pauses with jitter until a deadline."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from moldau.client.errors import TimedOutError
from moldau.errors import KafkaError

T = TypeVar("T")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
JITTER = 0.2


class Backoff:
    """The pauses between attempts; ``pause`` gives up when the deadline would pass."""

    __slots__ = ("_attempts", "_deadline", "_loop")

    def __init__(self, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout
        self._attempts = 0

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; never negative."""
        return max(0.0, self._deadline - self._loop.time())

    async def pause(self, because: Exception) -> None:
        """Sleep before the next attempt, or raise what made this one fail."""
        seconds = min(FIRST_PAUSE * 2**self._attempts, LONGEST_PAUSE)
        seconds *= 1 + random.uniform(-JITTER, JITTER)  # noqa: S311 - spreads retries, no secret
        self._attempts += 1
        if seconds >= self.remaining:
            raise because
        await asyncio.sleep(seconds)


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    *,
    within: float,
    recover: Callable[[KafkaError], Awaitable[object]] | None = None,
) -> T:
    """Call ``attempt`` until it does not fail with a retriable error.

    ``recover`` runs between attempts (a metadata refresh, as a rule).
    """
    backoff = Backoff(within)
    while True:
        try:
            async with asyncio.timeout(backoff.remaining):
                return await attempt()
        except TimeoutError:
            raise TimedOutError(f"Not done after {within:g} s") from None
        except KafkaError as error:
            if not error.retriable:
                raise
            await backoff.pause(error)
            if recover is not None:
                await recover(error)
