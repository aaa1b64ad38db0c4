"""The topics in a consumer's JoinGroup metadata.

Consumers put a ``ConsumerProtocolSubscription`` into the metadata of their protocols. Its version 0
(version, topics, user data) is the beginning of every later version, so that much is read and no
more. What a client writes there is its own affair: anything that cannot be read gives None, "not
known".
"""

from __future__ import annotations

from struct import Struct, error

CONSUMER_PROTOCOL_TYPE = "consumer"

_HEADER = Struct(">hi")  # version, number of topics
_LENGTH = Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of one member, or None if the metadata is not a subscription."""
    try:
        _, count = _HEADER.unpack_from(metadata)
        position = _HEADER.size
        topics = []
        if not 0 <= count <= len(metadata) // _LENGTH.size:
            return None
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            name = metadata[position : position + length]
            if length < 0 or len(name) != length:
                return None
            topics.append(name.decode())
            position += length
    except (error, UnicodeDecodeError):
        return None
    return frozenset(topics)
