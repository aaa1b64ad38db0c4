"""The errors of clients: one tree, one look at ``retriable``."""

from __future__ import annotations

import re

import pytest

from moldau.client import errors
from moldau.errors import ErrorCode, KafkaError
from moldau.request_errors import check, error_of

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, KafkaError) and value is not KafkaError
]


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_code_becomes_an_error_with_its_words(code: ErrorCode) -> None:
    error = error_of(int(code))
    assert error is not None
    assert error.code is code
    assert error.message == code.message
    told = error_of(int(code), "because")
    assert told is not None
    assert told.message == "because"
    with pytest.raises(type(error)):
        check(int(code))


def test_no_error_is_none() -> None:
    assert error_of(0) is None
    check(0)


def test_codes_of_the_future_are_unknown_errors() -> None:
    error = error_of(9999)
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in error.message


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_is_drawn_in_the_tree_and_exported(kind: type[KafkaError]) -> None:
    assert kind.__name__ in errors.__all__
    assert errors.__doc__ is not None
    lines = [
        line for line in errors.__doc__.splitlines() if re.search(rf"\b{kind.__name__}\b", line)
    ]
    assert lines, f"{kind.__name__} is not in the docstring"
