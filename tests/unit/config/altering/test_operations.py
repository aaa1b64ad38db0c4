"""Changing settings at run time."""

from __future__ import annotations

import pytest

from moldau.config.altering.operations import (
    Alteration,
    AlterOperation,
    apply_incremental,
    apply_replacement,
)
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.topic import TopicOptions
from moldau.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = AlterOperation
POLICY = "cleanup.policy"


def alter(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    return apply_incremental(
        TopicOptions.table, current, [Alteration(*change) for change in changes]
    )


def test_operations_change_only_what_they_name() -> None:
    before = {"segment.ms": "1", "retention.ms": "2", POLICY: "compact"}

    after = alter(
        before,
        ("segment.ms", SET, "5"),
        ("retention.ms", DELETE, None),
        ("flush.ms", SET, "6"),
        ("preallocate", DELETE, "ignored"),
    )

    assert after == {"segment.ms": "5", "flush.ms": "6", POLICY: "compact"}
    assert before == {"segment.ms": "1", "retention.ms": "2", POLICY: "compact"}


@pytest.mark.parametrize(
    ("stored", "operation", "value", "expected"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, SUBTRACT, "delete", ""),
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact", APPEND, "compact", "compact"),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "delete", "compact"),
        ("", APPEND, "compact", "compact"),
        ("compact", APPEND, "", "compact"),
        (" compact , delete", SUBTRACT, "compact,delete", ""),
    ],
)
def test_lists_grow_and_shrink_from_what_is_stored_or_else_the_default(
    stored: str | None, operation: int, value: str, expected: str
) -> None:
    current = {} if stored is None else {POLICY: stored}

    assert alter(current, (POLICY, operation, value)) == {POLICY: expected}


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        (("segment.ms", SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported"),
        (("segment.ms", APPEND, None), ErrorCode.INVALID_REQUEST, "Null value not supported"),
        (("segment.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "Unknown operation 9"),
        (("segment.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "Can't APPEND to key segment.ms"),
        (("nope", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG, "Can't SUBTRACT to key nope"),
    ],
)
def test_operations_that_make_no_sense(
    change: tuple[str, int, str | None], code: ErrorCode, sentence: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        alter({}, change)

    assert caught.value.code is code
    assert sentence in caught.value.message


def test_one_key_cannot_be_changed_twice() -> None:
    with pytest.raises(KafkaError) as caught:
        alter({}, ("segment.ms", SET, "1"), ("segment.ms", SET, "2"))

    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_replacement_takes_all_and_checks_the_same() -> None:
    assert apply_replacement([("segment.ms", "1"), (POLICY, "")]) == {"segment.ms": "1", POLICY: ""}
    for bad in ([("a", "1"), ("a", "2")], [("a", None)]):
        with pytest.raises(KafkaError) as caught:
            apply_replacement(bad)
        assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_broker_lists_grow_from_their_default_too() -> None:
    changes = [Alteration("log.cleanup.policy", APPEND, "compact")]

    assert apply_incremental(BrokerOptions.table, {}, changes) == {
        "log.cleanup.policy": "delete,compact"
    }
