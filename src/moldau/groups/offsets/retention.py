"""From when on the retention time of a group's offsets runs.

``offsets.retention.minutes`` never touches an offset that somebody may still need:

- a classic group with members: only topics that it does not subscribe to, from the commit on, and
  only while it is stable and known to be a consumer group (else nobody knows its topics);
- a classic group without members: from the moment it became empty; from the commit on when that
  moment was not recorded (records of old brokers);
- a simple group, one that commits without ever having members: from the commit on;
- a group under the consumer protocol: topics without a subscription, from the commit on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


def _nothing_subscribed(_topic: str) -> bool:
    return False


class Retention(NamedTuple):
    since_ms: int | None = None
    """The start of the retention time for all offsets; None: for each its commit."""
    is_subscribed: Callable[[str], bool] = _nothing_subscribed
    """Whether the group reads this topic; its offsets stay."""


FROM_COMMIT = Retention()
"""Simple groups, and groups that nobody knows more about."""
