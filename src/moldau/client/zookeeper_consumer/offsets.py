"""Offsets kept in ZooKeeper nodes: one write each, so they are stored now and then only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.client.zookeeper_consumer.nodes import GroupPaths, decode_offset
from moldau.coordination.errors import ConnectionLostError, NodeExistsError, NoNodeError
from moldau.coordination.store import CoordinationStore, SetData
from moldau.model import TopicPartition


async def read_offsets(
    store: CoordinationStore, paths: GroupPaths, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The stored offsets, for those partitions that have one."""
    wanted = list(partitions)
    nodes = await store.get_many([paths.offset(partition) for partition in wanted])
    return {
        partition: decode_offset(partition, node[0])
        for partition, node in zip(wanted, nodes, strict=True)
        if node is not None
    }


async def write_offsets(
    store: CoordinationStore, paths: GroupPaths, offsets: Mapping[TopicPartition, int]
) -> None:
    """Store offsets. An offset says the same twice, so what a broken connection left open is
    simply written again."""
    left = {paths.offset(partition): b"%d" % offset for partition, offset in offsets.items()}
    while left:
        answers = await store.multi_many([[SetData(path, data)] for path, data in left.items()])
        again: dict[str, bytes] = {}
        for (path, data), answer in zip(left.items(), answers, strict=True):
            if isinstance(answer, ConnectionLostError):
                again[path] = data
            elif isinstance(answer, NoNodeError):
                again |= await _create(store, path, data)
            elif isinstance(answer, Exception):
                raise answer
        left = again


async def _create(store: CoordinationStore, path: str, data: bytes) -> dict[str, bytes]:
    """The first offset of a partition; returns what must be written again."""
    await store.ensure_path(path.rpartition("/")[0])
    try:
        await store.create(path, data)
    except (NodeExistsError, ConnectionLostError):
        return {path: data}
    return {}
