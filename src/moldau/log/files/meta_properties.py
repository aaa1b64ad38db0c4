"""``meta.properties``: to which cluster and node a log directory belongs.

Version 1 names cluster, node and directory; version 0, of the ZooKeeper days, says ``broker.id``.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.names import META_PROPERTIES
from moldau.log.files.partition_metadata import decode_uuid, encode_uuid
from moldau.machine.disk import Disk


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
    """Returns what the directory says, None if it says nothing."""
    path = f"{log_dir}/{META_PROPERTIES}"
    try:
        return MetaProperties.decode(disk.read(path), path)
    except FileNotFoundError:
        return None


def write_meta_properties(disk: Disk, log_dir: str, properties: MetaProperties) -> None:
    disk.write_atomic(f"{log_dir}/{META_PROPERTIES}", properties.encode())
