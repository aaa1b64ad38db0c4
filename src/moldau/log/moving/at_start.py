"""What a stop or a crash left of moves between log directories."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from moldau.errors import KafkaError
from moldau.log.directory.log_directory import DirectoryContent, LogDirectory
from moldau.log.directory.placement import Placement
from moldau.log.files.names import (
    DELETE_DIR_SUFFIX,
    marked_dir_name,
    parse_dir_name,
    partition_dir_name,
)
from moldau.log.files.replaced_logs import write_replaced
from moldau.log.moving.copying import while_copied
from moldau.log.moving.move import Move
from moldau.log.partition.log import PartitionLog
from moldau.log.recovery.opening import load_log
from moldau.machine import Machine
from moldau.machine.disk import Disk
from moldau.model import NO_TOPIC_ID, TopicPartition

_log = logging.getLogger(__name__)


def drop_replaced(machine: Machine, contents: Mapping[str, DirectoryContent]) -> None:
    """Finish the moves that were interrupted between giving the copy its name and taking it from
    the original: what was replaced is marked for deletion (blocks; OSError if the disk refuses).
    """
    disk = machine.disk
    for path, content in contents.items():
        settled = [partition for partition, old in content.replaced.items() if old in contents]
        for topic_partition in settled:
            old = content.replaced.pop(topic_partition)
            name = partition_dir_name(topic_partition)
            if name in content.partitions and name in contents[old].partitions:
                _log.warning("%s/%s was replaced by %s/%s", old, name, path, name)
                marked = marked_dir_name(topic_partition, machine.new_uuid(), DELETE_DIR_SUFFIX)
                disk.rename(f"{old}/{name}", f"{old}/{marked}")
                disk.sync_dir(old)
                contents[old].partitions.remove(name)
                contents[old].to_delete.append(marked)
        if settled:
            write_replaced(disk, path, content.replaced)


class FutureLogs:
    """The copies in the directories, and the originals they belong to."""

    def __init__(
        self,
        disk: Disk,
        new_uuid: Callable[[], UUID],
        logs: Mapping[TopicPartition, PartitionLog],
        placement: Placement,
        *,
        now_ms: int,
        producer_expiration_ms: int,
    ) -> None:
        self._disk = disk
        self._new_uuid = new_uuid
        self._logs = logs
        self._placement = placement
        self._now_ms = now_ms
        self._producer_expiration_ms = producer_expiration_ms

    def open(
        self, directory: LogDirectory, content: DirectoryContent
    ) -> tuple[list[Move], list[str]]:
        """Returns the moves to go on with, and the directories of others, which are marked to be
        removed (blocks). A copy whose original is not there is left alone: it may be all there is.
        """
        moves: dict[TopicPartition, Move] = {}
        outdated: list[str] = []
        for name in content.futures:
            parsed = parse_dir_name(name)
            assert parsed is not None
            topic_partition = parsed[0]
            log = self._logs.get(topic_partition)
            if log is None:
                _log.warning("%s/%s is left alone: its original is missing", directory.path, name)
                continue
            home = self._placement.home(topic_partition)
            future = None
            if topic_partition not in moves and home is not directory:
                future = self._load(directory, name, content, log)
            if future is not None:
                moves[topic_partition] = Move(log, home, directory, future)
            else:
                marked = marked_dir_name(topic_partition, self._new_uuid(), DELETE_DIR_SUFFIX)
                self._disk.rename(f"{directory.path}/{name}", f"{directory.path}/{marked}")
                outdated.append(marked)
        return list(moves.values()), outdated

    def _load(
        self, directory: LogDirectory, name: str, content: DirectoryContent, log: PartitionLog
    ) -> PartitionLog | None:
        try:
            future = load_log(
                self._disk,
                f"{directory.path}/{name}",
                log.topic_partition,
                while_copied(log.config),
                now_ms=self._now_ms,
                clean=content.clean,
                recovery_point=0,
                producer_expiration_ms=self._producer_expiration_ms,
            )
        except KafkaError as error:
            _log.warning("%s/%s is begun again: %s", directory.path, name, error)
            return None
        known = NO_TOPIC_ID not in (future.topic_id, log.topic_id)
        return None if known and future.topic_id != log.topic_id else future
