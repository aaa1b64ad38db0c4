"""Records of ``__consumer_offsets``, from what they say to their bytes and back."""

from __future__ import annotations

from moldau.outcome import Record
from moldau.wire.stored.group_records import (
    GROUP_RECORDS,
    GroupKey,
    GroupValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.wire.stored.offset_commits import decode_offset_commit, encode_offset_commit


def to_record(key: GroupKey, value: GroupValue | None) -> Record:
    """The record that sets a key; without a value, the one that removes it."""
    return Record(*GROUP_RECORDS.encode(key, value))


def commit_record(key: OffsetCommitKey, value: OffsetCommitValue) -> Record:
    """The same for an offset commit, in less time."""
    return Record(*encode_offset_commit(key, value))


def tombstone(key: GroupKey) -> Record:
    return to_record(key, None)


def from_record(key: bytes, value: bytes | None) -> tuple[GroupKey, GroupValue | None] | None:
    """What a record says; None when it is of a type that is not known here.

    Raises ``DecodeError`` for damaged records and for those of versions from the future.
    """
    return decode_offset_commit(key, value) or GROUP_RECORDS.decode(key, value)
