"""Where the old consumer keeps things in ZooKeeper, and in which form. Paths are Kafka's.

/consumers/[group]/ids/[consumer]                       ephemeral: what it subscribes to
/consumers/[group]/owners/[topic]/[partition]           ephemeral: which stream reads it
/consumers/[group]/offsets/[topic]/[partition]          the offset that comes next
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.paths import escaped
from moldau.model import TopicPartition


class GroupPaths:
    def __init__(self, group: str) -> None:
        self.root = f"/consumers/{escaped(group)}"
        self.ids = f"{self.root}/ids"

    def consumer(self, consumer: str) -> str:
        return f"{self.ids}/{escaped(consumer)}"

    def owner(self, partition: TopicPartition) -> str:
        return f"{self.root}/owners/{partition.topic}/{partition.partition}"

    def offset(self, partition: TopicPartition) -> str:
        return f"{self.root}/offsets/{partition.topic}/{partition.partition}"


class _Registration(msgspec.Struct):
    version: int
    subscription: dict[str, int]
    pattern: str = "static"
    timestamp: str = ""


_read_registration = msgspec.json.Decoder(_Registration).decode


def encode_registration(subscription: Mapping[str, int], now_ms: int) -> bytes:
    return msgspec.json.encode(_Registration(1, dict(subscription), "static", str(now_ms)))


def decode_registration(consumer: str, data: bytes) -> dict[str, int]:
    """How many streams a consumer has for each topic."""
    try:
        return _read_registration(data).subscription
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorruptError(f"consumer {consumer} is registered illegibly: {error}") from error


def decode_offset(partition: TopicPartition, data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        raise StoreCorruptError(f"the offset stored for {partition} is {data!r}") from None
