"""Which broker a resource names, whose settings or loggers are asked for or changed.

Kafka refuses each of these in words of its own.
"""

from __future__ import annotations

from moldau.errors import invalid_request


def check_described_broker(node_id: int, name: str) -> None:
    """Settings of a broker are asked of that broker itself."""
    _check_id(name, "Broker")
    if name != str(node_id):
        raise invalid_request(
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
        )


def check_altered_broker(node_id: int, name: str) -> None:
    _check_id(name, "Node")
    if name != str(node_id):
        raise invalid_request(f"Unexpected broker id, expected {node_id}, but received {name}")


def check_described_loggers(node_id: int, name: str) -> None:
    if not name:
        raise invalid_request("Broker id must not be empty")
    _check_id(name, "Broker")
    if name != str(node_id):
        raise invalid_request(f"Unexpected broker id, expected {node_id} but received {name}")


def check_altered_loggers(node_id: int, name: str) -> None:
    _check_id(name, "Node")
    if name != str(node_id):
        raise invalid_request(f"Unexpected node id. Expected {node_id}, but received {name}")


def _check_id(name: str, kind: str) -> None:
    if not name.isascii() or not name.isdigit():
        raise invalid_request(f"{kind} id must be an integer, but it is: {name}")
