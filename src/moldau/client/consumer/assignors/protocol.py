"""``ConsumerProtocolSubscription`` and ``…Assignment``, versions 0 to 3.

These bytes go through the group's coordinator unread. Each version only adds at the end: 1 the
partitions that a member owns (KIP-429), 2 its generation (KIP-792), 3 its rack (KIP-881). So newer
ones can be read as the newest that is known here, and what is missing keeps its default.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from moldau.client.consumer.assignors.base import NO_GENERATION, MemberSubscription
from moldau.client.consumer.assignors.bytes import (
    Cursor,
    put_bytes,
    put_partitions,
    put_string,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

NEWEST = 3
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Assigned(NamedTuple):
    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(member: MemberSubscription, version: int = NEWEST) -> bytes:
    out = bytearray(_INT16.pack(version) + _INT32.pack(len(member.topics)))
    for topic in sorted(member.topics):
        out = put_string(out, topic)
    out = put_bytes(out, member.user_data)
    if version >= 1:
        out = put_partitions(out, member.owned)
    if version >= 2:
        out += _INT32.pack(member.generation)
    if version >= 3:
        out = put_string(out, member.rack)
    return bytes(out)


def decode_subscription(data: bytes, instance_id: str | None = None) -> MemberSubscription:
    """What another client's member sent; KafkaError if these are no such bytes.

    Some clients claim a version and leave out what it added: then that keeps its default, too.
    """
    try:
        cursor = Cursor(data)
        version = cursor.int16()
        topics = tuple(cursor.string() for _ in range(cursor.count()))
        user_data = cursor.nullable_bytes()
        return MemberSubscription(
            topics,
            owned=cursor.partitions() if version >= 1 and not cursor.at_end else (),
            generation=cursor.int32() if version >= 2 and not cursor.at_end else NO_GENERATION,
            rack=cursor.nullable_string() if version >= 3 and not cursor.at_end else None,
            instance_id=instance_id,
            user_data=user_data,
        )
    except (struct.error, ValueError) as error:
        raise _malformed("subscription", error) from error


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None, version: int = NEWEST
) -> bytes:
    return bytes(put_bytes(put_partitions(bytearray(_INT16.pack(version)), partitions), user_data))


def decode_assignment(data: bytes) -> Assigned:
    """Empty bytes are an empty assignment: what the leader left out gets nothing."""
    if not data:
        return Assigned(())
    try:
        cursor = Cursor(data)
        cursor.int16()
        return Assigned(cursor.partitions(), cursor.nullable_bytes())
    except (struct.error, ValueError) as error:
        raise _malformed("assignment", error) from error


def _malformed(what: str, error: Exception) -> KafkaError:
    return KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"A member's {what} cannot be read: {error}"
    )
