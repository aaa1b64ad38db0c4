"""``topic.config``: a topic's own settings, beside its partitions.

The coordination store is where settings are; this copy is for the day on which the store is damaged
or lost. It is in one partition directory of each topic in every log directory, the one with the
lowest number. Apache Kafka and its tools overlook files of such names.

    crc32: 0a1b2c3d
    {"version":1,"topic_id":"…","config_version":3,"config":{"cleanup.policy":"compact"}}
"""

from __future__ import annotations

import zlib
from typing import NamedTuple
from uuid import UUID

import msgspec

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import TOPIC_CONFIG
from moldau.log.files.partition_metadata import decode_uuid, encode_uuid
from moldau.machine.disk import Disk

_VERSION = 1


class StoredTopicConfig(NamedTuple):
    topic_id: UUID
    version: int
    """Rises with every change of the settings; -1 for those that nobody knows."""
    config: dict[str, str]


class _Json(msgspec.Struct):
    version: int
    topic_id: str
    config_version: int
    config: dict[str, str]


def encode_topic_config(stored: StoredTopicConfig) -> bytes:
    topic_id = encode_uuid(stored.topic_id)
    line = msgspec.json.encode(_Json(_VERSION, topic_id, stored.version, stored.config)) + b"\n"
    return b"crc32: %08x\n" % zlib.crc32(line) + line


def read_topic_config(disk: Disk, directory: str) -> StoredTopicConfig:
    """FileNotFoundError or CorruptCheckpointError if there is none."""
    path = f"{directory}/{TOPIC_CONFIG}"
    head, _, line = disk.read(path).partition(b"\n")
    if head != b"crc32: %08x" % zlib.crc32(line):
        raise CorruptCheckpointError(f"{path}: the checksum does not match")
    try:
        found = msgspec.json.decode(line, type=_Json)
        if found.version != _VERSION:
            raise ValueError(f"unknown version {found.version}")
        return StoredTopicConfig(decode_uuid(found.topic_id), found.config_version, found.config)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None
