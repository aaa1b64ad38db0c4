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
BEGAN_BEFORE = "member begins before what its group had committed"

GroupPartition = tuple[str, TopicPartition]


def check_offsets(history: History) -> Iterator[Violation]:
    commits: dict[GroupPartition, list[Commit]] = defaultdict(list)
    for commit in history.commits:
        commits[commit.group, commit.partition].append(commit)
    for told in history.committed:
        if told.group in history.noting_groups:
            yield from _agrees(history, told, commits[told.group, told.partition])
    yield from _beginnings(history, commits)
    yield from _unread(history)


def _beginnings(
    history: History, commits: dict[GroupPartition, list[Commit]]
) -> Iterator[Violation]:
    """Whoever is given a partition asks the group where to begin, after everything that was
    acknowledged before. Nobody but the group's true coordinator can give partitions away, because
    that has to be written; so its answer is true, truce or not.
    """
    sights: dict[tuple[str, TopicPartition], list[Sight]] = defaultdict(list)
    for sight in history.sights:
        sights[sight.reader, sight.partition].append(sight)
    kept = {(each.member, each.partition, each.until) for each in history.ownerships}
    for owned in history.ownerships:
        member = (owned.member, owned.partition)
        if owned.group not in history.noting_groups or (*member, owned.since) in kept:
            continue
        first = next((one for one in sights[member] if owned.since <= one.at <= owned.until), None)
        asked_for = commits[owned.group, owned.partition]
        last = _last_done(history, asked_for, owned.since)
        if first is None or last is None:
            continue
        possible = _possible([one for one in asked_for if one.at <= first.at], last)
        if first.offset < min(possible):
            yield Violation(
                BEGAN_BEFORE,
                f"{owned.member} was given {owned.partition} at {owned.since:.6f} s and began at "
                f"{first.offset}, although {last.member} had committed {last.offset} at "
                f"{last.settled_at:.6f} s",
                owned.partition,
                first.at,
            )


def _last_done(history: History, commits: list[Commit], before: float) -> Commit | None:
    """Returns the last commit that was acknowledged before a time; None if it may be lost."""
    done = [one for one in commits if one.fate is Fate.DONE and one.settled_at <= before]
    if not done:
        return None
    last = max(done, key=lambda commit: commit.settled_at)
    return None if history.may_have_lost(last.heard_at) else last


def _possible(commits: list[Commit], last: Commit) -> set[int]:
    """Returns what may hold: whatever was under way when the last one was acknowledged, or later,
    may have overtaken it.
    """
    possible = {last.offset}
    for commit in commits:
        is_over = commit.fate is Fate.DONE and not commit.may_come_again
        if not is_over or commit.settled_at >= last.at:
            possible.add(commit.offset)
    return possible


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
    last = _last_done(history, asked_for, told.asked_at)
    if last is None or not history.is_trusted(told.asked_at, told.told_at):
        return
    if told.offset not in _possible(asked_for, last):
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
