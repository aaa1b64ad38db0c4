"""What the subscriptions of a group come to: topics, their hash, and the topics patterns match."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Final
from uuid import UUID

from moldau.errors import KafkaError
from moldau.groups.consumer.group import ConsumerGroup, ResolvedRegex
from moldau.groups.consumer.member import Member
from moldau.groups.consumer.patterns import matching
from moldau.groups.topics import TopicView

logger: Final = logging.getLogger(__name__)


def metadata_hash(topics: TopicView, names: Iterable[str]) -> int:
    """A number that changes when a topic of ``names`` appears, goes, grows or is placed anew.

    Kafka has the hash in its records, too, but only ever compares it with one that it computed
    itself; another function costs a group that moves between the two one more assignment.
    """
    known = [(name, count) for name in sorted(names) if (count := topics.partitions(name))]
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for name, count in known:
        racks = [sorted(partition) for partition in topics.racks(name)]
        digest.update(repr((name, topics.topic_id(name), count, racks)).encode())
    return int.from_bytes(digest.digest(), "big", signed=True)


def topic_ids(topics: TopicView, names: Iterable[str]) -> frozenset[UUID]:
    """The ids of those topics that exist."""
    return frozenset(topic_id for name in names if (topic_id := topics.topic_id(name)) is not None)


def resolve(topics: TopicView, regex: str, now_ms: int) -> ResolvedRegex:
    """The topics that a pattern matches now. Raises INVALID_REGULAR_EXPRESSION."""
    return ResolvedRegex(matching(regex, topics.names()), version=0, timestamp_ms=now_ms)


def _resolve_again(
    topics: TopicView, regex: str, resolved: ResolvedRegex, now_ms: int
) -> ResolvedRegex:
    """The same for a pattern that is stored. Another release, or Kafka, may have taken one that is
    refused here: as with Kafka it stays as it was, and no other member suffers for it.
    """
    try:
        return resolve(topics, regex, now_ms)
    except KafkaError as error:
        logger.error("a stored pattern is not matched again: %s", error.message)
        return replace(resolved, timestamp_ms=now_ms)


def resolve_changes(
    topics: TopicView,
    group: ConsumerGroup,
    before: Member,
    after: Member,
    now_ms: int,
    *,
    refresh: bool,
    oldest_ms: int,
) -> dict[str, ResolvedRegex | None]:
    """The patterns of a group that must be written anew, None for those nobody uses any more.

    ``after`` takes the place of ``before``. Patterns are matched again when topics may have
    changed (``refresh``), and when that was last done before ``oldest_ms``.
    """
    changes: dict[str, ResolvedRegex | None] = {}
    old, new = before.subscribed_regex or None, after.subscribed_regex or None
    if old != new and old is not None and group.subscribers(old) <= 1:
        changes[old] = None
    if new is not None and new not in group.regexes:
        changes[new] = resolve(topics, new, now_ms)
    for regex, resolved in group.regexes.items():
        due = resolved.timestamp_ms < oldest_ms
        if regex not in changes and (refresh or due):
            again = _resolve_again(topics, regex, resolved, now_ms)
            if due or again.topics != resolved.topics:
                changes[regex] = again
    return changes


def with_changes(
    regexes: Mapping[str, ResolvedRegex], changes: Mapping[str, ResolvedRegex | None]
) -> Mapping[str, ResolvedRegex]:
    if not changes:
        return regexes
    merged = {**regexes, **changes}
    return {regex: resolved for regex, resolved in merged.items() if resolved is not None}
