"""To which cluster and node log directories belong, as their ``meta.properties`` say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.log.files.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from moldau.log.files.names import BROKER_LIFE, parse_dir_name
from moldau.log.files.partition_metadata import encode_uuid
from moldau.machine import Disk, Machine

_RESERVED_DIRECTORY_IDS: Final = 100
"""Kafka gives the first hundred ids a meaning of their own (lost, unassigned, migrating)."""


def known_cluster_id(disk: Disk, log_dirs: Iterable[str]) -> str | None:
    """Returns the cluster that one of the directories says it belongs to."""
    for log_dir in log_dirs:
        known = read_meta_properties(disk, log_dir)
        if known is not None and known.cluster_id is not None:
            return known.cluster_id
    return None


def claim_directories(
    machine: Machine, log_dirs: Iterable[str], cluster_id: str, node_id: int
) -> dict[str, UUID]:
    """Make sure that the directories are this node's, and name those that are new.

    Returns their directory ids. A directory of another cluster or node is refused: to serve its
    data as ours would lose or mix up records.
    """
    disk, ids = machine.disk, {}
    for log_dir in log_dirs:
        known = read_meta_properties(disk, log_dir)
        if known is not None and known.cluster_id not in (None, cluster_id):
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"{log_dir} belongs to cluster {known.cluster_id}, this is {cluster_id}",
            )
        if known is not None and known.node_id not in (None, node_id):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{log_dir} belongs to node {known.node_id}, node.id is {node_id}",
            )
        directory_id = known.directory_id if known is not None else None
        wanted = MetaProperties(
            cluster_id, node_id, directory_id or _new_directory_id(machine.new_uuid)
        )
        if known != wanted:
            write_meta_properties(disk, log_dir, wanted)
        assert wanted.directory_id is not None
        ids[log_dir] = wanted.directory_id
    return ids


def check_store(disk: Disk, log_dirs: Iterable[str], *, is_shared: bool, is_new: bool) -> None:
    """Raises KafkaError if what belongs to these directories must be in another store."""
    if not is_shared:
        refuse_to_leave_a_cluster(disk, log_dirs)
    elif is_new:
        refuse_an_empty_store(disk, log_dirs)


def refuse_to_leave_a_cluster(disk: Disk, log_dirs: Iterable[str]) -> None:
    """Raises KafkaError if these directories are of a broker that shares its store with others.

    Alone it would lead everything in epochs of its own, and take records that no other broker has:
    back in its cluster, its partitions would not come into sync any more.
    """
    for log_dir in log_dirs:
        if disk.exists(f"{log_dir}/{BROKER_LIFE}"):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{log_dir} belongs to a broker of a cluster, and zookeeper.connect is not set; to "
                f"make a cluster of its own of it, for good, remove {BROKER_LIFE} there",
            )


def refuse_an_empty_store(disk: Disk, log_dirs: Iterable[str]) -> None:
    """Raises KafkaError if replicas are in these directories, for a store that knows of nothing.

    Topics that are made there would have the names of those in the directories, and clients would
    find them empty.
    """
    for log_dir in log_dirs:
        try:
            names = disk.listdir(log_dir) if disk.is_dir(log_dir) else []
        except OSError:
            continue  # whoever opens the logs says so
        replica = next((name for name in names if parse_dir_name(name) is not None), None)
        if replica is not None or BROKER_LIFE in names:
            known = read_meta_properties(disk, log_dir)
            owner = f"cluster {known.cluster_id}" if known and known.cluster_id else "a cluster"
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"the coordination store is empty, but {log_dir} belongs to a broker of {owner}: "
                "the store was lost, or zookeeper.connect names another one. Bring the store back, "
                "from a copy if need be; nothing was changed in the log directories. A new "
                "cluster, without what is in them, needs other log.dirs",
            )


def _new_directory_id(new_uuid: Callable[[], UUID]) -> UUID:
    while True:
        directory_id = new_uuid()
        # Kafka never gives out ids whose text form would look like a command line option.
        if directory_id.int >= _RESERVED_DIRECTORY_IDS and encode_uuid(directory_id)[0] != "-":
            return directory_id
