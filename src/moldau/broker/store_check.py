"""The coordination store of a broker that is stopped: read, checked, held against its directories.

What ``moldau coordination`` does; nothing here runs in a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ParamSpec, TypeVar
from uuid import UUID

from moldau.controller.adoption import KEEP_EVERYTHING, FoundPartition
from moldau.controller.loading import load_stored
from moldau.controller.stray_topics import FoundOnDisk, KeptConfig, compare
from moldau.coordination import journal, loading, paths
from moldau.coordination.embedded import SNAPSHOT_AFTER_BYTES, EmbeddedStore
from moldau.coordination.storage import LOCK, DiskStorage
from moldau.coordination.tree import ZNode
from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import CLUSTER_METADATA_TOPIC, DELETE_DIR_SUFFIX, parse_dir_name
from moldau.log.files.partition_metadata import read_partition_metadata
from moldau.log.files.topic_config import read_topic_config
from moldau.machine.disk import Disk
from moldau.machine.real.clock import SystemClock
from moldau.machine.real.disk import OsDisk
from moldau.machine.real.loop import run as run_loop

P = ParamSpec("P")
T = TypeVar("T")

FILES = (
    journal.SNAPSHOT,
    journal.JOURNAL,
    journal.PREVIOUS_SNAPSHOT,
    journal.PREVIOUS_JOURNAL,
)


@dataclass(slots=True)
class StoreCheck:
    directory: str
    files: dict[str, int]
    """Those that are there, and their sizes."""
    transaction: int
    """The last one that can be read."""
    nodes: int
    topics: int
    torn_bytes: int
    problems: list[str]
    """Damage that costs nothing: what is missing is there twice."""
    damage: list[str]
    """Damage that a start refuses."""
    at_start: list[str]
    """What the store lacks and the next start takes from the log directories."""
    deletion_suspended: list[str]
    """Topics that keep everything until somebody sets their cleanup.policy."""


def check(directories: Sequence[str]) -> StoreCheck:
    """Look at the store in the first directory and at the partitions in all; changes nothing.

    Raises StoreLockedError if a broker is using them.
    """
    disk = OsDisk()
    with _locked(disk, directories[0]) as storage:
        found = loading.examine(storage)
        files = {name: storage.size(name) for name in FILES if storage.read(name) is not None}
        on_disk = _look_at(disk, directories)
        return run_loop(_compare(directories[0], storage, found, files, on_disk))


async def _compare(
    directory: str,
    storage: DiskStorage,
    found: loading.Found,
    files: dict[str, int],
    on_disk: FoundOnDisk,
) -> StoreCheck:
    transaction, nodes = found.tree.zxid, len(found.tree.nodes)
    has_topics = paths.TOPICS in found.tree.nodes
    topics = found.tree.children(paths.TOPICS) if has_topics else []
    news: list[str] = []
    suspended: list[str] = []
    if has_topics:
        # Only read: nothing of it reaches the disk.
        store = EmbeddedStore(storage, found, _run_here, SystemClock().now_ms, SNAPSHOT_AFTER_BYTES)
        stored = await load_stored(store.session())
        stored.has_lost |= found.may_lack_changes
        news = compare(stored, on_disk, 0).news
        policy = "cleanup.policy"
        suspended = [
            name
            for name, topic in stored.topics.items()
            if topic.config.get(policy) == KEEP_EVERYTHING[policy]
        ]
    elif on_disk.partitions:
        names = sorted({partition.topic for partition in on_disk.partitions})
        news = [f"topic {name} is not in the store: adopted" for name in names]
    return StoreCheck(
        directory,
        files,
        transaction,
        nodes,
        len(topics),
        found.torn_bytes,
        found.problems,
        found.damage,
        news,
        suspended,
    )


def dump(directory: str) -> list[ZNode]:
    """Returns the nodes of the store, as far as they can be read, in the order of their paths."""
    with _locked(OsDisk(), directory) as storage:
        nodes = loading.examine(storage).tree.nodes
    return [nodes[path] for path in sorted(nodes)]


def restore(directory: str) -> loading.Found:
    """See ``loading.restore``."""
    with _locked(OsDisk(), directory) as storage:
        return loading.restore(storage, SystemClock().now_ms())


@contextmanager
def _locked(disk: Disk, directory: str) -> Iterator[DiskStorage]:
    storage = DiskStorage(disk, directory)
    if disk.exists(f"{directory}/{LOCK}"):
        storage.lock()
    try:
        yield storage
    finally:
        storage.close()


def _look_at(disk: Disk, directories: Sequence[str]) -> FoundOnDisk:
    partitions: list[FoundPartition] = []
    configs: dict[str, KeptConfig] = {}
    deleted: set[tuple[UUID, int]] = set()
    for log_dir in directories:
        for name in sorted(disk.listdir(log_dir)):
            directory = f"{log_dir}/{name}"
            parsed = parse_dir_name(name)
            if parsed is None or not disk.is_dir(directory):
                continue
            (topic, number), mark = parsed
            topic_id = _topic_id(disk, directory)
            if mark == DELETE_DIR_SUFFIX and topic_id is not None:
                deleted.add((topic_id, number))
            elif not mark and topic != CLUSTER_METADATA_TOPIC:
                partitions.append(FoundPartition(topic, number, topic_id, -1))
                with suppress(OSError, CorruptCheckpointError):
                    kept = KeptConfig(*read_topic_config(disk, directory))
                    if topic not in configs or configs[topic].version < kept.version:
                        configs[topic] = kept
    return FoundOnDisk(partitions, configs, deleted)


def _topic_id(disk: Disk, directory: str) -> UUID | None:
    try:
        return read_partition_metadata(disk, directory)
    except (OSError, CorruptCheckpointError):
        return None


async def _run_here(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return work(*args, **kwargs)
