"""Names of the topics and brokers that settings belong to, checked as the config APIs do."""

from __future__ import annotations

from moldau.controller.topic_names import invalid_reason
from moldau.errors import ErrorCode, KafkaError


def check_topic_name(name: str) -> None:
    reason = invalid_reason(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


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
