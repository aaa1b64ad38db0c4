"""Whose settings a broker can speak of."""

from __future__ import annotations

from moldau.errors import ErrorCode, KafkaError


def check_described_broker(node_id: int, name: str) -> None:
    """Settings of a broker are asked of that broker itself."""
    _check(node_id, name, "Broker", f"{node_id} or empty string")


def check_altered_broker(node_id: int, name: str) -> None:
    """So are changes of them, which Kafka refuses in other words."""
    _check(node_id, name, "Node", str(node_id))


def _check(node_id: int, name: str, kind: str, expected: str) -> None:
    if not name.isascii() or not name.isdigit():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{kind} id must be an integer, but it is: {name}"
        )
    if int(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {expected}, but received {name}",
        )
