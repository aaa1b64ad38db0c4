"""What a classic group waits for, as keys of the coordinator's deadlines."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class DeadlineKind(Enum):
    SESSION = "session"
    """A member has to be heard of by then."""
    JOIN = "join"
    """The group goes on with those who have joined by then."""
    SYNC = "sync"
    """Members that have not asked for their assignment by then are removed."""


class ClassicDeadline(NamedTuple):
    kind: DeadlineKind
    group_id: str
    member_id: str = ""


def session(group_id: str, member_id: str) -> ClassicDeadline:
    return ClassicDeadline(DeadlineKind.SESSION, group_id, member_id)


def join(group_id: str) -> ClassicDeadline:
    return ClassicDeadline(DeadlineKind.JOIN, group_id)


def sync(group_id: str) -> ClassicDeadline:
    return ClassicDeadline(DeadlineKind.SYNC, group_id)
