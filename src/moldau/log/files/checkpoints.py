"""Checkpoint files: a version line, a count line, and one line per entry.

Offset checkpoints map partitions to offsets (``topic partition offset``) and exist once per log
directory; the leader-epoch checkpoint (``epoch start-offset``) exists once per partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.log.errors import CorruptCheckpointError
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_VERSION: Final = 0


def encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join((str(_VERSION), str(len(entries)), *entries, "")).encode()


def decode_lines(data: bytes, path: str) -> list[list[str]]:
    """Returns the fields of each entry; an empty file has none."""
    try:
        lines = data.decode().splitlines()
        if len(lines) < 2:
            return []
        version, count = int(lines[0]), int(lines[1])
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None
    if version != _VERSION:
        raise CorruptCheckpointError(f"{path} has version {version}, expected {_VERSION}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != count:
        raise CorruptCheckpointError(f"{path} announces {count} entries and has {len(entries)}")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_lines(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Returns the offsets in a checkpoint; none if there is no such file."""
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in decode_lines(data, path)
        }
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    disk.write_atomic(path, encode_offsets(offsets))
