"""Reading the metadata log of a KRaft broker (Apache Kafka 3.3 and later).

A directory written by such a broker keeps its topics' settings not beside the logs but as records
in ``__cluster_metadata-0``: a ``.checkpoint`` with everything up to an offset, then segments. Only
what adopting the directory needs is decoded; other records are skipped. Each value is framed as

    frame version, record type, record version (unsigned varints), then the record's fields

in the flexible encoding of Kafka's messages (the schemas are in its metadata module).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.records.batch import iter_headers
from moldau.records.reader import read_records

_FRAME_VERSION = 1

_TOPIC = 2
_PARTITION = 3
_CONFIG = 4
_PARTITION_CHANGE = 5
_REMOVE_TOPIC = 9
_PRODUCER_IDS = 15
_BEGIN_TRANSACTION = 23
_END_TRANSACTION = 24
_ABORT_TRANSACTION = 25

_LEADER_TAG = 1
_TOPIC_RESOURCE = 2
_BROKER_RESOURCE = 4
_GROUP_RESOURCE = 32


@dataclass(slots=True)
class KraftPartition:
    replicas: tuple[int, ...]
    leader_epoch: int


@dataclass(slots=True)
class KraftTopic:
    name: str
    topic_id: UUID
    partitions: dict[int, KraftPartition] = field(default_factory=dict)


@dataclass(slots=True)
class MetadataImage:
    """The state that a metadata log describes."""

    topics: dict[UUID, KraftTopic] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """By broker id; the empty id stands for all brokers."""
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0

    def topic_named(self, name: str) -> KraftTopic | None:
        return next((topic for topic in self.topics.values() if topic.name == name), None)


def metadata_values(data: bytes) -> Iterator[bytes]:
    """The values of the data records in a ``.checkpoint`` or ``.log`` file of the metadata log.

    A torn batch at the end (the broker was killed) is left out: it was never committed.
    """
    for position, header in iter_headers(data):
        if header.is_control:
            continue
        for record in read_records(data, position):
            if record.value is not None:
                yield record.value


def replay(values: Iterable[bytes]) -> MetadataImage:
    """The image after these records, in order: the newest checkpoint's, then the segments'.

    Segments may begin before the checkpoint's offset; replaying those records again is harmless.
    Records of a metadata transaction (KIP-868) count once it ends.
    """
    image = MetadataImage()
    transaction: list[tuple[int, _Fields]] | None = None
    for value in values:
        fields = _Fields(value)
        frame_version, kind = fields.uvarint(), fields.uvarint()
        fields.uvarint()
        if frame_version != _FRAME_VERSION:
            raise _malformed(f"frame version {frame_version}")
        if kind == _BEGIN_TRANSACTION:
            transaction = []
        elif kind == _END_TRANSACTION:
            for one in transaction or ():
                _apply(image, *one)
            transaction = None
        elif kind == _ABORT_TRANSACTION:
            transaction = None
        elif transaction is not None:
            transaction.append((kind, fields))
        else:
            _apply(image, kind, fields)
    return image


def _apply(image: MetadataImage, kind: int, fields: _Fields) -> None:
    if kind == _TOPIC:
        name, topic_id = fields.string(), fields.uuid()
        if name is None:
            raise _malformed("a topic without a name")
        image.topics.setdefault(topic_id, KraftTopic(name, topic_id))
    elif kind == _PARTITION:
        _apply_partition(image, fields)
    elif kind == _PARTITION_CHANGE:
        _apply_partition_change(image, fields)
    elif kind == _CONFIG:
        _apply_config(image, fields)
    elif kind == _REMOVE_TOPIC:
        topic = image.topics.pop(fields.uuid(), None)
        if topic is not None:
            image.topic_configs.pop(topic.name, None)
    elif kind == _PRODUCER_IDS:
        fields.int32()
        fields.int64()
        image.next_producer_id = max(image.next_producer_id, fields.int64())


def _apply_partition(image: MetadataImage, fields: _Fields) -> None:
    number, topic_id, replicas = fields.int32(), fields.uuid(), fields.int32_array()
    for _ in ("isr", "removing replicas", "adding replicas"):
        fields.int32_array()
    fields.int32()
    topic = image.topics.get(topic_id)
    if topic is not None:
        topic.partitions[number] = KraftPartition(replicas, fields.int32())


def _apply_partition_change(image: MetadataImage, fields: _Fields) -> None:
    """Only the leader epoch matters here: it rises with every change that names a leader."""
    number, topic_id = fields.int32(), fields.uuid()
    topic = image.topics.get(topic_id)
    partition = topic.partitions.get(number) if topic is not None else None
    if partition is not None and _LEADER_TAG in fields.tags():
        partition.leader_epoch += 1


def _apply_config(image: MetadataImage, fields: _Fields) -> None:
    resource_type = fields.int8()
    resource, name, value = fields.string() or "", fields.string() or "", fields.string()
    if resource_type == _TOPIC_RESOURCE:
        configs = image.topic_configs
    elif resource_type == _BROKER_RESOURCE:
        configs = image.broker_configs
    elif resource_type == _GROUP_RESOURCE:
        configs = image.group_configs
    else:
        return
    if value is not None:
        configs.setdefault(resource, {})[name] = value
    elif resource in configs:
        configs[resource].pop(name, None)
        if not configs[resource]:
            del configs[resource]


class _Fields:
    """A reader over one value; whatever does not fit raises KafkaError(CORRUPT_MESSAGE)."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, size: int) -> bytes:
        start = self._position
        end = start + size
        if size < 0 or end > len(self._data):
            raise _malformed(f"{size} bytes wanted at {start} of {len(self._data)}")
        self._position = end
        return self._data[start:end]

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _malformed("a varint of more than five bytes")

    def int8(self) -> int:
        return int.from_bytes(self._take(1), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def string(self) -> str | None:
        size = self.uvarint() - 1
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise _malformed(str(error)) from error

    def int32_array(self) -> tuple[int, ...]:
        count = self.uvarint() - 1
        return struct.unpack(f">{count}i", self._take(4 * count)) if count > 0 else ()

    def tags(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = self._take(self.uvarint())
        return found


def _malformed(what: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The cluster metadata log is malformed: {what}")
