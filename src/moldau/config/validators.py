"""What values an option allows, beyond their type.

A validator says the same thing twice: to a person who reads the documentation (``text``) and to one
whose value was refused (``reason``, in Kafka's words), so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Validator(Protocol):
    """Decides whether a parsed value is allowed."""

    @property
    def text(self) -> str:
        """The allowed values, for documentation."""
        ...

    def reason(self, value: Any) -> str | None:
        """Why this value is refused, or None when it is fine."""
        ...


class Between:
    """A number at least ``low`` and at most ``high``; either bound may be left open."""

    __slots__ = ("also", "high", "low")

    def __init__(
        self, low: float | None, high: float | None = None, *, also: float | None = None
    ) -> None:
        self.low = low
        self.high = high
        self.also = also

    @property
    def text(self) -> str:
        if self.low is not None and self.high is not None:
            bounds = f"{self.low} to {self.high}"
        elif self.low is not None:
            bounds = f"at least {self.low}"
        else:
            bounds = f"at most {self.high}"
        return bounds if self.also is None else f"{bounds}, or {self.also}"

    def reason(self, value: float) -> str | None:
        if self.also is not None and value == self.also:
            return None
        too_low = self.low is not None and not value >= self.low
        if not too_low and (self.high is None or value <= self.high):
            return None
        if self.also is not None:
            return f"Value must be between {self.low} and {self.high} or equal to {self.also}"
        if too_low:
            return f"Value must be at least {self.low}"
        return f"Value must be no more than {self.high}"


class OneOf:
    """One of a few words."""

    __slots__ = ("any_case", "words")

    def __init__(self, *words: str, any_case: bool = False) -> None:
        self.words = words
        self.any_case = any_case

    @property
    def text(self) -> str:
        return self._listed

    @property
    def _listed(self) -> str:
        return ", ".join(word or "empty" for word in self.words)

    def reason(self, value: str) -> str | None:
        known = value in self.words
        if not known and self.any_case:
            known = value.lower() in (word.lower() for word in self.words)
        case = " (case insensitive)" if self.any_case else ""
        return None if known else f"String must be one of{case}: {self._listed}"


class EachOf(OneOf):
    """A list, perhaps an empty one, whose items are all one of a few words."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return f"any of: {self._listed}"


class ThrottledReplicas:
    """``*`` for every replica, or pairs ``partition:broker``."""

    __slots__ = ()

    text = "* or a list of partition:broker pairs"

    def reason(self, value: Sequence[str]) -> str | None:
        if list(value) == ["*"]:
            return None
        for item in value:
            partition, colon, broker = item.partition(":")
            if not (colon and is_digits(partition) and is_digits(broker)):
                return "must be * or a list of partition:broker pairs such as 0:1,1:2"
        return None


class OffsetReset:
    """Where reading begins: a word, or how long ago as an ISO 8601 duration (KIP-1106)."""

    __slots__ = ("words",)

    def __init__(self, *words: str) -> None:
        self.words = words

    @property
    def text(self) -> str:
        words = ", ".join(self.words)
        return f"{words}, or by_duration: with an ISO 8601 duration such as PT1H"

    def reason(self, value: str) -> str | None:
        kind, colon, duration = value.partition(":")
        if not colon and kind in self.words:
            return None
        from moldau.durations import parse_iso_duration_ms  # rarely needed, and start-up counts

        try:
            if kind == "by_duration":
                parse_iso_duration_ms(duration)
                return None
        except ValueError:
            pass
        return f"must be {self.text}"


def is_digits(text: str) -> bool:
    """Returns whether the text is a plain unsigned decimal number (``str.isdigit`` accepts
    more).
    """
    return text.isascii() and text.isdigit()
