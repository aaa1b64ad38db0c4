"""Topics: what a client was told about one is true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from moldau.testing.simulation.checker.history import (
    UNSET,
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
        if not history.is_trusted(sight.asked_at, sight.told_at):
            continue
        if _may_be_back(sight, relevant, history.damages):
            continue
        yield from _existence(sight, relevant)
        if sight.exists:
            yield from _value(sight, "partitions", sight.partitions, relevant, _size)
            if sight.setting is not None:
                yield from _value(sight, "a setting", sight.setting, relevant, _setting)


def _may_be_back(sight: TopicSight, changes: list[TopicChange], damages: list[float]) -> bool:
    """Whether the topic may be one that was deleted: a store that is damaged may have lost that.

    It is empty then, and everything else about it as old. What was created anew is not.
    """
    created = [
        c.at
        for c in changes
        if c.action is TopicAction.CREATE
        and c.fate is Fate.DONE
        and not c.may_come_again
        and c.settled_at <= sight.asked_at
    ]
    deleted = [c.at for c in changes if c.action is TopicAction.DELETE]
    return any(
        deletion <= damage <= sight.told_at and not any(at > damage for at in created)
        for deletion in deleted
        for damage in damages
    )


def _size(change: TopicChange) -> int | None:
    """How many partitions a change leaves, if it has to do with that."""
    return change.value if change.action in (TopicAction.CREATE, TopicAction.GROW) else None


def _setting(change: TopicChange) -> int | None:
    """What a change leaves of the setting, if it has to do with that."""
    if change.action is TopicAction.CREATE:
        return UNSET
    return change.value if change.action is TopicAction.ALTER else None


def _existence(sight: TopicSight, changes: list[TopicChange]) -> Iterator[Violation]:
    """The last change that is known to have happened decides, unless another may have the last
    word.
    """
    relevant = [c for c in changes if c.action in (TopicAction.CREATE, TopicAction.DELETE)]
    last = _last_done(sight, relevant)
    if any(_may_hold(change, sight, last) for change in relevant if change is not last):
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
    what: str,
    told: int,
    changes: list[TopicChange],
    value_of: Callable[[TopicChange], int | None],
) -> Iterator[Violation]:
    relevant = [change for change in changes if value_of(change) is not None]
    last = _last_done(sight, relevant)
    if all(value_of(c) != told for c in relevant if _may_hold(c, sight, last)):
        yield Violation(
            UNTRUE,
            f"topic {sight.topic} has {told} for {what}, a client was told, but the last change "
            f"was {_describe(last)}",
            at=sight.told_at,
        )


def _last_done(sight: TopicSight, changes: list[TopicChange]) -> TopicChange | None:
    done = [c for c in changes if c.fate is Fate.DONE and c.settled_at <= sight.asked_at]
    return max(done, key=lambda change: change.settled_at, default=None)


def _may_hold(change: TopicChange, sight: TopicSight, last: TopicChange | None) -> bool:
    """Whether what a client was told may be the work of a change: not of one that was over before
    the last one was begun, unless nobody knows what became of it, or what is still to come of it.
    """
    return change.at <= sight.told_at and (
        last is None
        or change.settled_at >= last.at
        or change.fate is Fate.UNKNOWN
        or change.may_come_again
    )


def _describe(change: TopicChange | None) -> str:
    if change is None:
        return "none"
    return f"{change.action.name} {change.value}, acknowledged at {change.settled_at:.6f} s"
