"""What ``cluster describe`` shows: brokers, those too that are missing, and who misses them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.client.admin import ClusterDescription, LogDir
    from moldau.client.client import Client
    from moldau.client.metadata import TopicInfo

ANSWERS_WITHIN_S: Final = 5.0
"""A broker that died a moment ago is still in the metadata; it is not waited for."""


async def report(client: Client) -> dict[str, Any]:
    """The document of ``--json``."""
    cluster = await client.admin.describe_cluster()
    topics = await client.admin.list_topics(internal=True)
    answers = await asyncio.gather(*(_log_dirs(client, node.id) for node in cluster.nodes))
    log_dirs = {node.id: found for node, found in zip(cluster.nodes, answers, strict=True)}
    return document(cluster, topics, log_dirs)


async def _log_dirs(client: Client, node_id: int) -> list[LogDir] | None:
    """Returns nothing at all if the broker does not answer."""
    from moldau.request_errors import ClientError

    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            return await client.admin.describe_log_dirs([node_id])
    except (ClientError, TimeoutError):
        return None


def document(
    cluster: ClusterDescription, topics: list[TopicInfo], log_dirs: dict[int, list[LogDir] | None]
) -> dict[str, Any]:
    """``log_dirs``: of each broker in the metadata; None where it does not answer."""
    partitions = [info for topic in topics for info in topic.partitions.values()]
    nodes = {node.id: node for node in cluster.nodes}
    holders = {node_id for info in partitions for node_id in info.replicas}
    brokers = []
    for node_id in sorted(nodes.keys() | holders):
        node = nodes.get(node_id)
        state = "down" if node is None else "up" if log_dirs[node_id] is not None else "silent"
        brokers.append(
            {
                "id": node_id,
                "state": state,
                "host": node.host if node is not None else None,
                "port": node.port if node is not None else None,
                "rack": node.rack if node is not None else None,
                **_load(node_id, topics),
                **_storage(log_dirs.get(node_id)),
            }
        )
    return {
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.controller_id,
        "topics": len(topics),
        "partitions": {
            "total": len(partitions),
            "under_replicated": sum(info.under_replicated for info in partitions),
            "offline": sum(info.leader < 0 for info in partitions),
        },
        "brokers": brokers,
    }


def _load(node_id: int, topics: list[TopicInfo]) -> dict[str, Any]:
    leads = replicas = 0
    out_of_sync = []
    for topic in topics:
        for number, info in sorted(topic.partitions.items()):
            leads += info.leader == node_id
            if node_id in info.replicas:
                replicas += 1
                if node_id not in info.isr:
                    out_of_sync.append(f"{topic.name}-{number}")
    return {"leader_of": leads, "replica_of": replicas, "out_of_sync": out_of_sync}


def _storage(log_dirs: list[LogDir] | None) -> dict[str, Any]:
    if log_dirs is None:
        return {"size": None, "log_dirs": []}
    return {
        "size": sum(sum(log_dir.sizes.values()) for log_dir in log_dirs),
        "log_dirs": [
            {
                "path": log_dir.path,
                "error": log_dir.error.code.name if log_dir.error else None,
                "cordoned": log_dir.cordoned,
                "size": sum(log_dir.sizes.values()),
                "total_bytes": log_dir.total_bytes,
                "usable_bytes": log_dir.usable_bytes,
            }
            for log_dir in log_dirs
        ],
    }
