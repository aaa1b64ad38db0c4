"""Patterns of topic names, matched in time linear in the name.

A pattern comes from a client and is matched against every topic on the coordinator's own loop, so
it must not be able to keep it busy: Python's ``re`` tries one way after the other and can take
exponential time. Here all ways are followed at once, as RE2 does: the pattern becomes an automaton,
and sets of its states are remembered as they come up.
"""

from __future__ import annotations

from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.consumer.pattern_syntax import (
    Assertion,
    Char,
    Choice,
    Node,
    PatternSyntaxError,
    Repeat,
    Sequence,
    Test,
    parse,
)

MAX_STATES = 10_000
_MAX_REMEMBERED = 5_000
_WORD: Final = frozenset("0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_END = ""
"""What follows the last character, and precedes the first."""

States = frozenset[int]


class Pattern:
    """A compiled pattern. It must match whole names."""

    def __init__(self, text: str) -> None:
        self._chars: list[tuple[Test, int] | None] = []
        """For each state the test of its character and the state after it."""
        self._free: list[list[tuple[str | None, int]]] = []
        """For each state those reached without a character, and what must hold for it."""
        self._final = self._state()
        self._first = self._build(parse(text), self._final)
        self._remembered: dict[tuple[States, str, str], States] = {}

    def matches(self, name: str) -> bool:
        states: States = frozenset([self._first])
        before = _END
        for char in name:
            key = states, before, char
            after = self._remembered.get(key)
            if after is None:
                after = self._step(states, before, char)
            if not after:
                return False
            states, before = after, char
        return self._final in self._closure(states, before, _END)

    def _step(self, states: States, before: str, char: str) -> States:
        after = frozenset(
            following[1]
            for state in self._closure(states, before, char)
            if (following := self._chars[state]) is not None and following[0](char)
        )
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[states, before, char] = after
        return after

    def _closure(self, states: States, before: str, after: str) -> set[int]:
        """The states, and those reached from them without a character."""
        reached = set(states)
        todo = list(states)
        while todo:
            for condition, state in self._free[todo.pop()]:
                if state not in reached and _holds(condition, before, after):
                    reached.add(state)
                    todo.append(state)
        return reached

    def _state(self) -> int:
        if len(self._free) >= MAX_STATES:
            raise PatternSyntaxError("expression too large")
        self._free.append([])
        self._chars.append(None)
        return len(self._free) - 1

    def _build(self, node: Node, following: int) -> int:
        """The state from which a node leads to ``following``."""
        match node:
            case Char():
                state = self._state()
                self._chars[state] = (node.test, following)
                return state
            case Assertion():
                state = self._state()
                self._free[state].append((node.kind, following))
                return state
            case Sequence():
                for item in reversed(node.items):
                    following = self._build(item, following)
                return following
            case Choice():
                state = self._state()
                for option in node.options:
                    self._free[state].append((None, self._build(option, following)))
                return state
            case Repeat():
                return self._build_repeat(node, following)

    def _build_repeat(self, node: Repeat, following: int) -> int:
        if node.most is None:
            loop = self._state()
            self._free[loop] += [(None, self._build(node.item, loop)), (None, following)]
            state = loop
        else:
            state = following
            for _ in range(node.most - node.least):
                entry = self._state()
                self._free[entry] += [(None, self._build(node.item, state)), (None, following)]
                state = entry
        for _ in range(node.least):
            state = self._build(node.item, state)
        return state


def _holds(condition: str | None, before: str, after: str) -> bool:
    match condition:
        case None:
            return True
        case "^":
            return before == _END
        case "$":
            return after == _END
    boundary = (before in _WORD) != (after in _WORD)
    return boundary == (condition == "b")


def compile_pattern(text: str) -> Pattern:
    """Raises INVALID_REGULAR_EXPRESSION."""
    try:
        return Pattern(text)
    except (PatternSyntaxError, RecursionError) as problem:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {problem}.",
        ) from None
