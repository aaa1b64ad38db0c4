"""Whose settings a broker can speak of."""

from __future__ import annotations

from moldau.errors import ErrorCode, KafkaError


def check_broker_name(node_id: int, name: str) -> None:
    """Settings of a broker are asked of that broker itself."""
    if not name.isascii() or not name.isdigit():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
