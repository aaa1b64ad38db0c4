"""The deadlines of members under the consumer protocol."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class MemberDeadline(Enum):
    SESSION = "consumer session"
    """No heartbeat came for a session timeout: the member is fenced."""
    REBALANCE = "consumer rebalance"
    """The member did not give up partitions within its rebalance timeout: it is fenced."""


class MemberTimeout(NamedTuple):
    """The key of a deadline among all deadlines of a shard."""

    kind: MemberDeadline
    group_id: str
    member_id: str


RETRY_MS = 500
"""When what a deadline asked for could not be written, it is tried again after this time."""
