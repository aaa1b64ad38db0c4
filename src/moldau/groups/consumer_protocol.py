"""What consumers put into JoinGroup and SyncGroup under the classic protocol.

To a coordinator the metadata of a classic member is a string of bytes. Consumers agree on what is
in it, the embedded "consumer" protocol (``ConsumerProtocolSubscription`` and
``ConsumerProtocolAssignment``), and a coordinator reads it when such a group becomes one under the
consumer protocol, and while it serves classic members there. Later versions add fields at the end,
so a version that is not known is read as the newest one that is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from moldau.groups.records import writing as w
from moldau.groups.records.reading import Reader
from moldau.records.errors import InvalidRecordError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_NEWEST = 3
_WITH_OWNED_PARTITIONS = 1
_WITH_GENERATION = 2
_WITH_RACK = 3
_NO_USER_DATA = w.int32(-1)

NamedPartitions = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member subscribes to; eager members never own anything when they join."""

    topics: frozenset[str]
    owned: NamedPartitions = field(default_factory=dict)
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    partitions: NamedPartitions
    has_user_data: bool = False
    """Whether the leader's assignor sent something that only its own kind understands."""


def read_version(data: bytes) -> int:
    """The version that a member speaks. Raises ``InvalidRecordError``, as all reading here does."""
    return _version(Reader(data))


def read_subscription(data: bytes, newest: int = _NEWEST) -> Subscription:
    reader = Reader(data)
    version = min(_version(reader), newest)
    topics = frozenset(reader.array(reader.string))
    _user_data(reader)
    owned = _partitions(reader) if version >= _WITH_OWNED_PARTITIONS else {}
    if version >= _WITH_GENERATION:
        reader.int32()
    rack_id = reader.nullable_string() if version >= _WITH_RACK else None
    return Subscription(topics, owned, rack_id or None)


def read_assignment(data: bytes) -> Assignment:
    """An assignment; nothing at all is what a member has that never synchronized."""
    if not data:
        return Assignment({})
    reader = Reader(data)
    _version(reader)
    partitions = _partitions(reader)
    return Assignment(partitions, has_user_data=_user_data(reader))


def write_assignment(partitions: Mapping[str, Collection[int]], version: int) -> bytes:
    """An assignment for a member that speaks ``version``."""
    topics = [
        w.string(topic) + w.array([w.int32(partition) for partition in sorted(partitions[topic])])
        for topic in sorted(partitions)
    ]
    return w.int16(min(version, _NEWEST)) + w.array(topics) + _NO_USER_DATA


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of one member, or None if its metadata is not a subscription."""
    try:
        return read_subscription(metadata, newest=0).topics
    except InvalidRecordError:
        return None


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise InvalidRecordError(f"there is no version {version} of the consumer protocol")
    return version


def _user_data(reader: Reader) -> bool:
    size = reader.int32()
    if size > 0:
        reader.take(size)
    return size > 0


def _partitions(reader: Reader) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for topic, partitions in reader.array(lambda: (reader.string(), reader.array(reader.int32))):
        found[topic] = found.get(topic, frozenset()) | frozenset(partitions)
    return found
