"""``meta.properties``: to which cluster and node a log directory belongs.

Version 1 names cluster, node and directory; version 0, of the ZooKeeper days, says ``broker.id``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from moldau.errors import ErrorCode, KafkaError
from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import META_PROPERTIES
from moldau.log.files.partition_metadata import decode_uuid, encode_uuid
from moldau.machine.disk import Disk

_RESERVED_DIRECTORY_IDS: Final = 100
"""Kafka gives the first hundred ids a meaning of their own (lost, unassigned, migrating)."""


class MetaProperties(NamedTuple):
    cluster_id: str | None
    node_id: int | None
    directory_id: UUID | None
    version: int = 1

    def encode(self) -> bytes:
        lines = ["#", f"version={self.version}"]
        if self.cluster_id is not None:
            lines.append(f"cluster.id={self.cluster_id}")
        if self.node_id is not None:
            lines.append(f"{'broker.id' if self.version == 0 else 'node.id'}={self.node_id}")
        if self.directory_id is not None:
            lines.append(f"directory.id={encode_uuid(self.directory_id)}")
        return "\n".join((*lines, "")).encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> MetaProperties:
        values: dict[str, str] = {}
        for line in data.decode(errors="replace").splitlines():
            if line.strip() and not line.startswith(("#", "!")):
                name, _, value = line.partition("=")
                values[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
        try:
            version = int(values.get("version", "0"))
            if version not in (0, 1):
                raise ValueError(f"unknown version {version}")
            node = values.get("broker.id" if version == 0 else "node.id")
            directory = values.get("directory.id")
            return cls(
                values.get("cluster.id"),
                None if node is None else int(node),
                None if directory is None else decode_uuid(directory),
                version,
            )
        except ValueError as error:
            raise CorruptCheckpointError(f"{path}: {error}") from None


def read_meta_properties(disk: Disk, log_dir: str) -> MetaProperties | None:
    """What the directory says, None if it says nothing."""
    path = f"{log_dir}/{META_PROPERTIES}"
    try:
        return MetaProperties.decode(disk.read(path), path)
    except FileNotFoundError:
        return None


def write_meta_properties(disk: Disk, log_dir: str, properties: MetaProperties) -> None:
    disk.write_atomic(f"{log_dir}/{META_PROPERTIES}", properties.encode())


def known_cluster_id(disk: Disk, log_dirs: Iterable[str]) -> str | None:
    """The cluster that one of the directories says it belongs to."""
    for log_dir in log_dirs:
        known = read_meta_properties(disk, log_dir)
        if known is not None and known.cluster_id is not None:
            return known.cluster_id
    return None


def claim_directories(
    disk: Disk, log_dirs: Iterable[str], cluster_id: str, node_id: int
) -> dict[str, UUID]:
    """Make sure that the directories are this node's, and name those that are new.

    Answers their directory ids. A directory of another cluster or node is refused: to serve its
    data as ours would lose or mix up records.
    """
    ids = {}
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
        wanted = MetaProperties(cluster_id, node_id, directory_id or _new_directory_id())
        if known != wanted:
            write_meta_properties(disk, log_dir, wanted)
        assert wanted.directory_id is not None
        ids[log_dir] = wanted.directory_id
    return ids


def _new_directory_id() -> UUID:
    while True:
        directory_id = uuid4()
        # Kafka never gives out ids whose text form would look like a command line option.
        if directory_id.int >= _RESERVED_DIRECTORY_IDS and encode_uuid(directory_id)[0] != "-":
            return directory_id
