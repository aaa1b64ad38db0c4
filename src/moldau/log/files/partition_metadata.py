"""``partition.metadata``: which topic id a partition directory belongs to."""

from __future__ import annotations

import base64
import binascii
from uuid import UUID

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import PARTITION_METADATA
from moldau.machine.disk import Disk


def encode_uuid(value: UUID) -> str:
    """Kafka's text form of a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    """ValueError if it is not one."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def read_partition_metadata(disk: Disk, directory: str) -> UUID:
    """Returns the topic id; FileNotFoundError or CorruptCheckpointError."""
    path = f"{directory}/{PARTITION_METADATA}"
    data = disk.read(path)
    try:
        version, topic_id = data.decode().splitlines()[:2]
        if not version.startswith("version:") or int(version[8:]) < 0:
            raise ValueError(f"bad version line {version!r}")
        if not topic_id.startswith("topic_id:"):
            raise ValueError(f"bad topic id line {topic_id!r}")
        return decode_uuid(topic_id[9:].strip())
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None
