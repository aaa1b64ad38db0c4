"""``moldau cluster``: the brokers and how they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moldau.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Timeout, group_app
from moldau.cli.output import on_terminal, print_json, print_line, print_table, tell
from moldau.cli.session import DEFAULT_TIMEOUT, with_client

app = group_app("Look at the cluster.")

_LITTLE_ROOM: Final = 1 << 20
"""Bytes: a request may have more."""
_NAMED: Final = 5
"""Partitions that are named in one sentence."""


@app.command()
def describe(
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the cluster id, controller, brokers, their log directories and partition health.

    A broker that holds replicas and is not there is shown as down, one that should be there and
    does not answer as silent.
    """
    from moldau.cli.cluster_report import report

    document = with_client(bootstrap, report, timeout=timeout)
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
    headers = ["BROKER", "ADDRESS", "STATE", "RACK", "LEADS", "REPLICAS", "OUT OF SYNC", "SIZE"]
    print_table([*headers, "LOG DIRS"], [_row(broker) for broker in document["brokers"]])
    for broker in document["brokers"]:
        if broker["state"] != "up" or broker["out_of_sync"]:
            tell(_complaint(broker))
        for sentence in _disk_complaints(broker):
            tell(sentence)


def _row(broker: dict[str, Any]) -> tuple[object, ...]:
    address = f"{broker['host']}:{broker['port']}" if broker["host"] is not None else None
    return (
        broker["id"],
        address,
        broker["state"],
        broker["rack"],
        broker["leader_of"],
        broker["replica_of"],
        len(broker["out_of_sync"]),
        _size(broker["size"]),
        [log_dir["path"] for log_dir in broker["log_dirs"]],
    )


def _complaint(broker: dict[str, Any]) -> str:
    missing = broker["out_of_sync"]
    names = ", ".join(missing[:_NAMED])
    if len(missing) > _NAMED:
        names += f" and {len(missing) - _NAMED} more"
    sentence = {
        "up": f"Broker {broker['id']} is not in sync",
        "down": f"Broker {broker['id']} is down",
        "silent": f"Broker {broker['id']} does not answer",
    }[broker["state"]]
    return f"{sentence}; missed by {names}." if missing else f"{sentence}."


def _disk_complaints(broker: dict[str, Any]) -> Iterator[str]:
    for log_dir in broker["log_dirs"]:
        where = f"{log_dir['path']} of broker {broker['id']}"
        if log_dir["error"] is not None:
            yield f"{where} is offline: {log_dir['error']}."
        elif 0 <= log_dir["usable_bytes"] < _LITTLE_ROOM:
            yield f"{where} is full: appends to what it holds are refused."


def _size(size: int | None) -> str | int | None:
    from moldau.cli.parsing import format_size

    return format_size(size) if size is not None and on_terminal() else size
