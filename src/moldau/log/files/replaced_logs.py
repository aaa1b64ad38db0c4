"""``replaced-logs.json``: which logs have replaced others in other directories. Not Kafka's.

A crash in the middle of a move may leave both logs under the partition's name. This file, in the
new one's directory, says which is out of date; without it nobody could tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import REPLACED_LOGS
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_VERSION: Final = 0


class _Entry(msgspec.Struct):
    topic: str
    partition: int
    directory: str
    """The log directory of the log that was replaced."""


class _Content(msgspec.Struct):
    version: int
    replaced: list[_Entry]


def read_replaced(disk: Disk, log_dir: str) -> dict[TopicPartition, str]:
    """Returns the partitions whose log here replaced one, and in which directory that was."""
    path = f"{log_dir}/{REPLACED_LOGS}"
    try:
        content = msgspec.json.decode(disk.read(path), type=_Content)
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None
    return {
        TopicPartition(entry.topic, entry.partition): entry.directory for entry in content.replaced
    }


def write_replaced(disk: Disk, log_dir: str, replaced: Mapping[TopicPartition, str]) -> None:
    """Durable when it returns; without entries there is no file."""
    path = f"{log_dir}/{REPLACED_LOGS}"
    if not replaced:
        disk.remove(path)
        disk.sync_dir(log_dir)
        return
    entries = [_Entry(topic, number, old) for (topic, number), old in replaced.items()]
    disk.write_atomic(path, msgspec.json.encode(_Content(_VERSION, entries)))
