from __future__ import annotations

import pytest

from moldau.controller.topic_names import (
    check_name,
    collision_key,
    has_collision_chars,
    invalid_reason,
    is_internal,
)
from moldau.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "a" * 249, "__consumer_offsets", "-", "_"])
def test_legal_names(name: str) -> None:
    assert invalid_reason(name) is None
    check_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, "longer than the max allowed length 249"),
        ("a b", "characters other than ASCII alphanumerics"),
        ("a/b", "characters other than"),
        ("ä", "characters other than"),
        ("a\n", "characters other than"),
        ("a\x00", "characters other than"),
    ],
)
def test_illegal_names_are_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert caught.value.message.startswith("Topic name is invalid: ")
    assert reason in caught.value.message


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") != collision_key("a-b-c")
    assert has_collision_chars("a.b")
    assert has_collision_chars("a_b")
    assert not has_collision_chars("a-b")


def test_internal_topics_are_known() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("orders")
