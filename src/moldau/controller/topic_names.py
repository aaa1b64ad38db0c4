"""Which topic names are legal, and which two may not live side by side."""

from __future__ import annotations

from moldau.errors import ErrorCode, KafkaError
from moldau.model import LEGAL_TOPIC_NAME, MAX_TOPIC_NAME_LENGTH

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def invalid_reason(name: str) -> str | None:
    """Returns why the name is illegal, or None if it is fine."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return (
            f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
        )
    if LEGAL_TOPIC_NAME.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def check_name(name: str) -> None:
    reason = invalid_reason(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def has_collision_chars(name: str) -> bool:
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Names with the same key collide: metric names turn '.' into '_'."""
    return name.replace(".", "_")
