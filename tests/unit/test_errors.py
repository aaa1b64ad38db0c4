"""The error table against the list that comes with kio, and what a person gets to read."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from moldau.errors import ErrorCode, KafkaError
from moldau.wire.primitives import error_from


def test_names_codes_and_retriable_flags_are_those_of_the_protocol() -> None:
    ours = {code.value: (code.name.lower(), code.retriable) for code in ErrorCode}
    theirs = {code.value: (code.name.lower(), code.retriable) for code in KioErrorCode}

    assert {code: ours[code] for code in theirs} == theirs


def test_codes_newer_than_the_other_list_follow_on_without_a_gap() -> None:
    assert sorted(ErrorCode) == list(range(-1, len(ErrorCode) - 1))


@pytest.mark.parametrize("code", list(ErrorCode), ids=lambda code: code.name)
def test_every_code_has_one_sentence(code: ErrorCode) -> None:
    assert code.message.endswith(".")
    assert code.message.strip() == code.message
    assert "\n" not in code.message


def test_an_error_speaks_its_own_sentence_or_that_of_its_code() -> None:
    error = KafkaError(ErrorCode.INVALID_PARTITIONS, "A topic cannot have 0 partitions.")
    plain = KafkaError(ErrorCode.NOT_CONTROLLER)

    assert str(error) == "INVALID_PARTITIONS: A topic cannot have 0 partitions."
    assert not error.retriable
    assert plain.message == ErrorCode.NOT_CONTROLLER.message
    assert plain.retriable


def test_a_code_is_the_number_on_the_wire() -> None:
    assert error_from(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert int(ErrorCode.UNKNOWN_SERVER_ERROR) == -1
