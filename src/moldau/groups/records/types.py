"""The kinds of records in ``__consumer_offsets``.

A key begins with two bytes that say which kind it is (Kafka once counted key versions there and
now uses them as the kind); a value begins with two bytes that say its version. A tombstone has no
value. Kinds that are not listed here belong to share groups and streams groups, or to a newer
version; a coordinator leaves such records alone.
"""

from __future__ import annotations

from enum import IntEnum


class RecordType(IntEnum):
    LEGACY_OFFSET_COMMIT = 0
    """Offset commits as Kafka 0.8 wrote them. Same key as OFFSET_COMMIT."""
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    """No longer written since Kafka 4.1, which keeps a hash in CONSUMER_GROUP_METADATA instead;
    tombstones still are."""
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
