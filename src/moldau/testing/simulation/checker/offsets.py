"""Committed offsets: they never go back by themselves, and never pass what the program got."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import (
    Commit,
    CommittedOffset,
    Fate,
    History,
    Sight,
)
from moldau.testing.simulation.checker.violation import Violation

WENT_BACK = "committed offset went back"
UNREAD = "committed past what the program got"
INVENTED = "committed offset that nobody committed"

GroupPartition = tuple[str, TopicPartition]


def check_offsets(history: History) -> Iterator[Violation]:
    commits: dict[GroupPartition, list[Commit]] = defaultdict(list)
    for commit in history.commits:
        commits[commit.group, commit.partition].append(commit)
    for told in history.committed:
        if told.group in history.noting_groups:
            yield from _agrees(history, told, commits[told.group, told.partition])
    yield from _unread(history)


def _agrees(history: History, told: CommittedOffset, commits: list[Commit]) -> Iterator[Violation]:
    """What a group is told is the last thing that one of its members committed."""
    asked_for = [commit for commit in commits if commit.at <= told.told_at]
    if told.offset >= 0 and all(commit.offset != told.offset for commit in asked_for):
        yield Violation(
            INVENTED,
            f"offset {told.offset} of {told.partition} was told for group {told.group}",
            told.partition,
            told.told_at,
        )
        return
    done = [c for c in asked_for if c.fate is Fate.DONE and c.settled_at <= told.asked_at]
    if not done or not history.is_trusted(told.asked_at, told.told_at):
        return
    last = max(done, key=lambda commit: commit.settled_at)
    if history.may_have_lost(last.heard_at):
        return
    # Whatever was under way when the last one was acknowledged, or later, may hold now.
    possible = {last.offset}
    for commit in asked_for:
        is_over = commit.fate is Fate.DONE and not commit.may_come_again
        if not is_over or commit.settled_at >= last.at:
            possible.add(commit.offset)
    if told.offset not in possible:
        yield Violation(
            WENT_BACK,
            f"group {told.group} had committed {last.offset} of {told.partition} (by "
            f"{last.member}, acknowledged at {last.settled_at:.6f} s), but was told {told.offset}",
            told.partition,
            told.told_at,
        )


def _unread(history: History) -> Iterator[Violation]:
    """Whatever lies before a committed offset was given to the group before."""
    sights: dict[GroupPartition, list[Sight]] = defaultdict(list)
    for sight in history.sights:
        sights[sight.group, sight.partition].append(sight)
    told: dict[GroupPartition, list[CommittedOffset]] = defaultdict(list)
    for committed in history.committed:
        told[committed.group, committed.partition].append(committed)
    for (group, partition), answers in told.items():
        log = history.final_logs.get(partition)
        offsets = [] if log is None else history.lasting_offsets(log)
        # Where records go before they were read, a group goes on behind them.
        gaps = history.is_compacted(partition) or history.may_be_deleted(partition, 0)
        yield from _past(answers, sights[group, partition], offsets, gaps=gaps)


def _past(
    answers: list[CommittedOffset], sights: list[Sight], offsets: list[int], *, gaps: bool
) -> Iterator[Violation]:
    """Tells of the first answer that is past what the group got; ``offsets`` are there to get.

    Behind the last of them, too, nothing can be committed, unless there may be gaps.
    """
    given: set[int] = set()
    highest = -1
    missing = 0
    upcoming = deque(sights)
    for answer in answers:
        while upcoming and upcoming[0].at <= answer.told_at:
            offset = upcoming.popleft().offset
            given.add(offset)
            highest = max(highest, offset)
        while missing < len(offsets) and offsets[missing] in given:
            missing += 1
        beyond = answer.offset if gaps else highest + 1
        first_missing = offsets[missing] if missing < len(offsets) else beyond
        if answer.offset > first_missing:
            yield Violation(
                UNREAD,
                f"group {answer.group} has committed {answer.offset} of {answer.partition}, but "
                f"was never given offset {first_missing}",
                answer.partition,
                answer.told_at,
            )
            return
