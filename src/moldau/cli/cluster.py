"""``moldau cluster``: the brokers and how they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Timeout, group_app
from moldau.cli.output import on_terminal, print_json, print_line, print_table
from moldau.cli.session import DEFAULT_TIMEOUT, with_client

if TYPE_CHECKING:
    from moldau.client.admin import LogDir
    from moldau.client.client import Client
    from moldau.client.metadata import TopicInfo

app = group_app("Look at the cluster.")


@app.command()
def describe(
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the cluster id, controller, brokers, their log directories and partition health."""
    document = with_client(bootstrap, _report, timeout=timeout)
    if json:
        print_json(document)
        return
    if on_terminal():
        health = document["partitions"]
        print_line(
            f"Cluster {document['cluster_id']}, controller is broker {document['controller_id']}"
        )
        print_line(
            f"{document['topics']} topics, {health['total']} partitions: "
            f"{health['under_replicated']} under-replicated, {health['offline']} offline"
        )
    print_table(
        ["BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS", "SIZE", "LOG DIRS"],
        [
            (
                broker["id"],
                f"{broker['host']}:{broker['port']}",
                broker["rack"],
                broker["leader_of"],
                broker["replica_of"],
                _size(broker["size"]),
                [log_dir["path"] for log_dir in broker["log_dirs"]],
            )
            for broker in document["brokers"]
        ],
    )


def _size(size: int) -> str | int:
    from moldau.cli.parsing import format_size

    return format_size(size) if on_terminal() else size


async def _report(client: Client) -> dict[str, Any]:
    cluster = await client.admin.describe_cluster()
    topics = await client.admin.list_topics(internal=True)
    log_dirs = await client.admin.describe_log_dirs()
    partitions = [info for topic in topics for info in topic.partitions.values()]
    return {
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.controller_id,
        "topics": len(topics),
        "partitions": {
            "total": len(partitions),
            "under_replicated": sum(info.under_replicated for info in partitions),
            "offline": sum(info.leader < 0 for info in partitions),
        },
        "brokers": [
            {
                "id": node.id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                **_load(node.id, topics),
                **_storage(node.id, log_dirs),
            }
            for node in sorted(cluster.nodes)
        ],
    }


def _load(node_id: int, topics: list[TopicInfo]) -> dict[str, int]:
    partitions = [info for topic in topics for info in topic.partitions.values()]
    return {
        "leader_of": sum(info.leader == node_id for info in partitions),
        "replica_of": sum(node_id in info.replicas for info in partitions),
    }


def _storage(node_id: int, log_dirs: list[LogDir]) -> dict[str, Any]:
    own = [log_dir for log_dir in log_dirs if log_dir.node_id == node_id]
    return {
        "size": sum(sum(log_dir.sizes.values()) for log_dir in own),
        "log_dirs": [
            {
                "path": log_dir.path,
                "error": log_dir.error.code.name if log_dir.error else None,
                "cordoned": log_dir.cordoned,
                "size": sum(log_dir.sizes.values()),
                "total_bytes": log_dir.total_bytes,
                "usable_bytes": log_dir.usable_bytes,
            }
            for log_dir in own
        ],
    }
