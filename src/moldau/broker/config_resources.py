"""Whose settings a broker can speak of: only of its own. The words are Kafka's."""

from __future__ import annotations

from moldau.errors import ErrorCode, KafkaError


def check_broker_name(node_id: int, name: str) -> None:
    """Settings of a broker are asked of that broker itself."""
    if not _is_id(name):
        raise _refused(f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise _refused(
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
        )


def check_described_loggers(node_id: int, name: str) -> None:
    if not name:
        raise _refused("Broker id must not be empty")
    if not _is_id(name):
        raise _refused(f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise _refused(f"Unexpected broker id, expected {node_id} but received {name}")


def check_altered_loggers(node_id: int, name: str) -> None:
    if not _is_id(name):
        raise _refused(f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise _refused(f"Unexpected node id. Expected {node_id}, but received {name}")


def _is_id(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
