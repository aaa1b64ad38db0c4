"""What a listener is told, checked before it starts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from moldau.client.errors import ConfigError
from moldau.client.listener.modes import AckMode
from moldau.client.listener.retries import (
    DEAD_LETTER_SUFFIX,
    RETRY_INFIX,
    OnError,
    Retries,
    dead_letter_topic,
    retry_topic,
)
from moldau.client.listener.work import Ordering

E = TypeVar("E", bound=Enum)

Topics = str | Iterable[str] | re.Pattern[str]


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    concurrency: int
    ack_mode: AckMode
    ack_count: int
    ack_time: float
    ordering: Ordering
    queue_size: int
    retries: Retries
    on_error: OnError
    dead_letter_topic: str | None
    workers: str
    drain_timeout: float

    def __post_init__(self) -> None:
        for name in ("concurrency", "queue_size", "ack_count"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.workers not in ("threads", "processes"):
            raise ConfigError(f"workers is 'threads' or 'processes', not {self.workers!r}")
        if self.workers == "processes" and self.ack_mode is AckMode.MANUAL:
            raise ConfigError("an acknowledgment cannot go to another process: use threads")
        if self.pattern is not None and self.retries.topics_ms:
            raise ConfigError("retry topics need the names of the topics, not a pattern")
        if self.pattern is None and not self.topics:
            raise ConfigError("there is no topic to listen to")
        if self.dead_letter_topic in self.topics:
            raise ConfigError("the dead-letter topic is one of the topics: it would never end")

    @property
    def retry_topics(self) -> dict[str, str]:
        """Every retry topic, and the topic that its records come from."""
        return {
            retry_topic(topic, delay): topic
            for topic in self.topics
            for delay in self.retries.topics_ms
        }

    @property
    def dead_letter_topics(self) -> dict[str, str]:
        """Every dead-letter topic, as far as known, and a topic that its records come from."""
        if self.on_error is not OnError.DEAD_LETTER:
            return {}
        return {self.dead_letters_of(topic): topic for topic in self.topics}

    def dead_letters_of(self, source: str) -> str:
        return self.dead_letter_topic or dead_letter_topic(source)


def read_topics(
    topics: Topics, dead_letters: str | None = None
) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    """Names, or a pattern that leaves out the topics that listeners write themselves."""
    if isinstance(topics, str):
        return (topics,), None
    if not isinstance(topics, re.Pattern):
        return tuple(topics), None
    own = [rf".*{re.escape(DEAD_LETTER_SUFFIX)}", rf".*{re.escape(RETRY_INFIX)}\d+"]
    if dead_letters is not None:
        own.append(re.escape(dead_letters))
    without_own = rf"\A(?!(?:{'|'.join(own)})\Z)(?:{topics.pattern})"
    try:
        return (), re.compile(without_own, topics.flags)
    except re.error:
        raise ConfigError(
            f"give flags to re.compile and not inside of the pattern {topics.pattern!r}"
        ) from None


def member(kind: type[E], value: E | str, name: str) -> E:
    """A member of an enum, given itself or by its value in whatever case."""
    if isinstance(value, kind):
        return value
    try:
        return kind(str(value).lower())
    except ValueError:
        allowed = ", ".join(repr(choice.value) for choice in kind)
        raise ConfigError(f"{name} is one of {allowed}, not {value!r}") from None
