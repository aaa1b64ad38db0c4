"""Topics: what a client was told about one is true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from moldau.testing.simulation.checker.history import (
    Fate,
    History,
    TopicAction,
    TopicChange,
    TopicSight,
)
from moldau.testing.simulation.checker.violation import Violation

UNTRUE = "untrue word about a topic"


def check_topics(history: History) -> Iterator[Violation]:
    changes: dict[str, list[TopicChange]] = defaultdict(list)
    for change in history.topic_changes:
        changes[change.topic].append(change)
    for sight in history.topic_sights:
        relevant = changes[sight.topic]
        yield from _existence(sight, relevant)
        if sight.exists:
            yield from _value(sight, sight.partitions, relevant, "partitions", _SIZES)
            if sight.setting is not None:
                yield from _value(sight, sight.setting, relevant, "a setting of", _SETTINGS)


_SIZES = (TopicAction.CREATE, TopicAction.GROW)
_SETTINGS = (TopicAction.ALTER,)


def _existence(sight: TopicSight, changes: list[TopicChange]) -> Iterator[Violation]:
    """The last change that is known to have happened decides, unless a later one may have."""
    relevant = [c for c in changes if c.action in (TopicAction.CREATE, TopicAction.DELETE)]
    last = _last_done(sight, relevant)
    undecided = any(
        change.at <= sight.told_at
        and change.fate is not Fate.REFUSED
        and (last is None or change.settled_at >= last.at or change.fate is Fate.UNKNOWN)
        for change in relevant
        if change is not last
    )
    if undecided:
        return
    expected = last is not None and last.action is TopicAction.CREATE
    if sight.exists != expected:
        yield Violation(
            UNTRUE,
            f"topic {sight.topic} {'exists' if sight.exists else 'does not exist'}, a client was "
            f"told, but the last change was {_describe(last)}",
            at=sight.told_at,
        )


def _value(
    sight: TopicSight,
    value: int,
    changes: list[TopicChange],
    what: str,
    actions: tuple[TopicAction, ...],
) -> Iterator[Violation]:
    relevant = [change for change in changes if change.action in actions]
    last = _last_done(sight, relevant)
    possible = {
        change.value
        for change in relevant
        if change.at <= sight.told_at
        and change.fate is not Fate.REFUSED
        and (last is None or change.settled_at >= last.at or change.fate is Fate.UNKNOWN)
    }
    if last is not None and value not in possible:
        yield Violation(
            UNTRUE,
            f"topic {sight.topic} was said to have {value} for {what} it, but the last change was "
            f"{_describe(last)}",
            at=sight.told_at,
        )


def _last_done(sight: TopicSight, changes: list[TopicChange]) -> TopicChange | None:
    done = [c for c in changes if c.fate is Fate.DONE and c.settled_at <= sight.asked_at]
    return max(done, key=lambda change: change.settled_at, default=None)


def _describe(change: TopicChange | None) -> str:
    if change is None:
        return "none"
    return f"{change.action.name} {change.value}, acknowledged at {change.settled_at:.6f} s"
