"""Records of an internal topic: from keys and values to bytes and back.

A key begins with two bytes that say of which type the record is (Kafka once counted versions of
keys there), a value with two bytes that say its version. A tombstone has no value. Types that are
not listed belong to other coordinators or to a newer release; a coordinator leaves such records
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from moldau.wire.data_messages import decode_prefixed, encode_prefixed, read_prefix

_KEY_VERSION = 0


class StoredValue(Protocol):
    @property
    def write_version(self) -> int:
        """The version that this value is written in: the one that Kafka's newest release writes."""


K = TypeVar("K")
V = TypeVar("V", bound=StoredValue)


class RecordType(NamedTuple, Generic[K, V]):
    key: type[K]
    value: type[V]


class RecordTypes(Generic[K, V]):
    """The types of one topic by their numbers; where two share a key, the last is written."""

    def __init__(self, types: Mapping[int, RecordType[K, V]]) -> None:
        self._types = dict(types)
        self._numbers = {kind.key: number for number, kind in types.items()}

    def encode(self, key: K, value: V | None) -> tuple[bytes, bytes | None]:
        """The bytes of a record that sets a key; without a value, of one that removes it."""
        head = encode_prefixed(self._numbers[type(key)], key, _KEY_VERSION)
        if value is None:
            return head, None
        version = value.write_version
        return head, encode_prefixed(version, value, version)

    def decode(self, key: bytes, value: bytes | None) -> tuple[K, V | None] | None:
        """What a record says; None when it is of a type that is not known here.

        ``DecodeError``: the bytes are not what their type and version promise, or a value is of a
        version from the future. To go on without it would lose a commit or a member silently.
        """
        kind = self._types.get(read_prefix(key))
        if kind is None:
            return None
        known = decode_prefixed(kind.key, key, _KEY_VERSION)
        return known, None if value is None else decode_prefixed(kind.value, value)
