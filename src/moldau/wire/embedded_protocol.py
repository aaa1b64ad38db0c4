"""The embedded protocol of classic consumers: what they put into JoinGroup and SyncGroup.

To a coordinator the metadata and the assignment of a classic member are strings of bytes. Consumers
agree on what is in them: ``ConsumerProtocolSubscription`` and ``ConsumerProtocolAssignment``, each
behind two bytes with its version. A coordinator reads them when such a group becomes one under the
consumer protocol (KIP-848, which has no such bytes), and while it serves classic members there.

Each version only adds at the end: 1 the partitions that a member owns (KIP-429), 2 its generation
(KIP-792), 3 its rack (KIP-881). So a version that is not known here is read as the newest that is.
What is malformed or cut off is refused with ``DecodeError``; Kafka's clients refuse it, too.
"""

from __future__ import annotations

from typing import Final

from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_assignment.v3.data import TopicPartition as AssignedPartitions
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription
from kio.schema.consumer_protocol_subscription.v3.data import TopicPartition as OwnedPartitions

from moldau.wire.data_messages import decode_prefixed, encode_prefixed, read_prefix
from moldau.wire.errors import DecodeError

__all__ = [
    "NEWEST",
    "PROTOCOL_TYPE",
    "AssignedPartitions",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "OwnedPartitions",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "protocol_version",
    "subscribed_topics",
]

PROTOCOL_TYPE: Final = "consumer"
"""What groups whose members speak this protocol are called in JoinGroup."""
NEWEST: Final = 3


def protocol_version(data: bytes) -> int:
    """The version that the sender of these bytes speaks."""
    version = read_prefix(data)
    if version < 0:
        raise DecodeError(f"there is no version {version} of the embedded protocol")
    return version


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = NEWEST) -> bytes:
    return encode_prefixed(version, subscription, version)


def decode_subscription(data: bytes, newest: int = NEWEST) -> ConsumerProtocolSubscription:
    """What a member subscribes to, without what versions above ``newest`` added."""
    version = min(protocol_version(data), newest)
    return decode_prefixed(ConsumerProtocolSubscription, data, version)


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """The topics of a member, or None if its metadata is no subscription.

    They are in all versions, and some clients leave out what the version they name added.
    """
    try:
        return decode_subscription(metadata, newest=0).topics
    except DecodeError:
        return None


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = NEWEST) -> bytes:
    """An assignment for a member that speaks ``version``."""
    version = min(version, NEWEST)
    return encode_prefixed(version, assignment, version)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """An assignment. No bytes at all are an empty one: the leader left the member out."""
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=())
    version = min(protocol_version(data), NEWEST)
    return decode_prefixed(ConsumerProtocolAssignment, data, version)
