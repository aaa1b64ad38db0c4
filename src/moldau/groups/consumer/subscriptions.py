"""What the subscriptions of a group come to: topics, their hash, and the topics patterns match."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final
from uuid import UUID

from moldau.errors import KafkaError
from moldau.groups.consumer.group import ConsumerGroup, ResolvedRegex
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


def changed_pattern(
    topics: TopicView, group: ConsumerGroup, regex: str, now_ms: int
) -> ResolvedRegex | None:
    """Returns the topics that a pattern matches now, if they are not the stored ones."""
    matched = _matched(regex, topics.names(), group.matches(regex))
    if regex in group.regexes and matched == group.matches(regex):
        return None
    return ResolvedRegex(matched, version=0, timestamp_ms=now_ms)


def _matched(regex: str, names: Iterable[str], before: frozenset[str]) -> frozenset[str]:
    """The names that a pattern matches. Another release, or Kafka, may have taken one that is
    refused here: it keeps what it matched, and no other member suffers for it.
    """
    try:
        return matching(regex, names)
    except KafkaError as error:
        logger.error("a stored pattern is not matched again: %s", error.message)
        return before


def with_changes(
    regexes: Mapping[str, ResolvedRegex], changes: Mapping[str, ResolvedRegex | None]
) -> Mapping[str, ResolvedRegex]:
    if not changes:
        return regexes
    merged = {**regexes, **changes}
    return {regex: resolved for regex, resolved in merged.items() if resolved is not None}
