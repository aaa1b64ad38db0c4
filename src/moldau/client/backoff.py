"""Trying again: exponential pauses with jitter until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from moldau.client.errors import TimedOutError
from moldau.errors import KafkaError

T = TypeVar("T")

# The defaults of retry.backoff.ms and retry.backoff.max.ms, but for a quicker second attempt.
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
JITTER: Final = 0.2


def pause_after(failures: int, first: float, longest: float, random: Random) -> float:
    """How long to wait after so many failures: doubling, give or take a fifth (KIP-580)."""
    seconds = min(first * float(1 << min(failures - 1, 30)), longest)
    return seconds * (1 + random.uniform(-JITTER, JITTER))


class Backoff:
    """The pauses between attempts; ``pause`` gives up when the deadline would pass."""

    __slots__ = ("_attempts", "_deadline", "_first", "_longest", "_loop", "_random", "timeout")

    def __init__(
        self,
        random: Random,
        timeout: float,
        first: float = FIRST_PAUSE,
        longest: float = LONGEST_PAUSE,
    ) -> None:
        self.timeout = timeout
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout
        self._first = first
        self._longest = longest
        self._attempts = 0

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; never negative."""
        return max(0.0, self._deadline - self._loop.time())

    async def pause(self, because: Exception) -> None:
        """Sleep before the next attempt, or raise what made this one fail."""
        self._attempts += 1
        seconds = pause_after(self._attempts, self._first, self._longest, self._random)
        if seconds >= self.remaining:
            raise because
        await asyncio.sleep(seconds)


class Reconnects:
    """When an address that could not be reached may be tried again, and how patiently.

    The pause is ``reconnect.backoff.ms`` doubled with every failure, the time for setting up a
    connection ``socket.connection.setup.timeout.ms`` likewise. Time is handed in.
    """

    __slots__ = (
        "_first",
        "_longest",
        "_random",
        "_setup",
        "_setup_longest",
        "failures",
        "not_before",
    )

    def __init__(
        self, random: Random, first: float, longest: float, setup: float, setup_longest: float
    ) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._setup = setup
        self._setup_longest = setup_longest
        self.failures = 0
        self.not_before = 0.0

    @property
    def setup_timeout(self) -> float:
        if self.failures == 0:
            return self._setup
        return min(self._setup * float(1 << min(self.failures, 30)), self._setup_longest)

    def failed(self, now: float) -> float:
        """Count a failure; returns the seconds until the next attempt."""
        self.failures += 1
        pause = pause_after(self.failures, self._first, self._longest, self._random)
        self.not_before = now + pause
        return pause

    def succeeded(self) -> None:
        self.failures = 0
        self.not_before = 0.0


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    backoff: Backoff,
    *,
    recover: Callable[[KafkaError], Awaitable[object]] | None = None,
) -> T:
    """Call ``attempt`` until it does not fail with a retriable error.

    ``recover`` runs between attempts (a metadata refresh, as a rule).
    """
    last = ""
    while True:
        try:
            async with asyncio.timeout(backoff.remaining):
                return await attempt()
        except TimeoutError:
            raise TimedOutError(f"Not done after {backoff.timeout:g} s{last}") from None
        except KafkaError as error:
            if not error.retriable:
                raise
            last = f": {error}"
            await backoff.pause(error)
            if recover is not None:
                await recover(error)
