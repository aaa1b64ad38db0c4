"""What happens to a record whose handler failed: again soon, later through a topic, or the end.

handler fails → again after a pause, in place, up to ``attempts`` calls (its lane waits)
              → to the next retry topic, if there are any: ``<topic>.retry.60000``
              → dead-letter topic ``<topic>.dlq``, skip, or stop
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from moldau.client.errors import ConfigError

RETRY_INFIX: Final = ".retry."
DEAD_LETTER_SUFFIX: Final = ".dlq"
_JITTER: Final = 0.2


class OnError(Enum):
    """The end of a record that no attempt could handle."""

    DEAD_LETTER = "dead_letter"
    """To the dead-letter topic, with headers that say why."""
    SKIP = "skip"
    """Logged and left behind."""
    STOP = "stop"
    """The listener stops; the record is not committed and is the next one to be read."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and when, a failed record is handled again."""

    attempts: int = 3
    """Calls of the handler each time a record is read, the first included."""
    backoff_ms: int = 1_000
    """The pause before the second call; it doubles with each call, ± 20 %."""
    backoff_max_ms: int = 30_000
    topics_ms: tuple[int, ...] = ()
    """The delays of the retry topics, one after the other: (60_000, 600_000) for 1 and 10 min."""
    fatal: tuple[type[Exception], ...] = ()
    """Errors that no further attempt will change: they go to the end at once."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ConfigError(f"attempts must be at least 1, not {self.attempts}")
        if self.backoff_ms < 0 or self.backoff_max_ms < self.backoff_ms:
            raise ConfigError("backoff_max_ms must be at least backoff_ms, and both not negative")
        if any(delay <= 0 for delay in self.topics_ms):
            raise ConfigError("the delays of retry topics are positive milliseconds")
        if len(set(self.topics_ms)) < len(self.topics_ms):
            raise ConfigError("retry topics are named by their delays, which must differ")

    def pause(self, attempts: int, random: Random) -> float:
        """Seconds to wait after so many failed calls."""
        longest = min(self.backoff_ms * 2.0 ** min(attempts - 1, 62), self.backoff_max_ms)
        spread = random.uniform(-_JITTER, _JITTER)
        return longest * (1 + spread) / 1000

    def is_worth_a_retry(self, error: BaseException, attempts: int) -> bool:
        return attempts < self.attempts and not isinstance(error, self.fatal)

    def next_delay_ms(self, error: BaseException, delay_ms: int | None) -> int | None:
        """The delay of the retry topic after the one that a record came from (None: the source)."""
        if isinstance(error, self.fatal):
            return None
        if delay_ms is None:
            return self.topics_ms[0] if self.topics_ms else None
        if delay_ms in self.topics_ms:
            later = self.topics_ms[self.topics_ms.index(delay_ms) + 1 :]
            return later[0] if later else None
        return None


def retry_topic(source: str, delay_ms: int) -> str:
    return f"{source}{RETRY_INFIX}{delay_ms}"


def dead_letter_topic(source: str) -> str:
    return f"{source}{DEAD_LETTER_SUFFIX}"
