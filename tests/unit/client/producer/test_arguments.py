"""What ``send`` says of arguments of wrong types, and what it makes of headers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from moldau import Producer
from moldau.client.errors import SerializationError
from moldau.client.producer.arguments import checked, pairs

RECORD: dict[str, Any] = {
    "topic": "t",
    "value": b"v",
    "key": b"k",
    "headers": (),
    "partition": 0,
    "timestamp": 5,
}


@pytest.mark.parametrize(
    ("argument", "given", "sentence"),
    [
        ("topic", None, "topic must be a str, not None"),
        ("topic", b"t", "topic must be a str, not bytes"),
        ("partition", 1.0, "partition must be an int, not float"),
        (
            "timestamp",
            datetime(2026, 1, 1, tzinfo=UTC),
            "timestamp must be an int, milliseconds since 1970, not datetime",
        ),
        ("headers", "a=b", "headers must be a mapping or a list of pairs, not str"),
        ("headers", 5, "headers must be a mapping or a list of pairs, not int"),
        ("headers", ["ab"], "headers must be pairs of a name and a value; 'ab' is none"),
        (
            "headers",
            [("a", b"", b"")],
            "headers must be pairs of a name and a value; ('a', b'', b'') is none",
        ),
        ("headers", {b"a": b""}, "headers must have names of str, not bytes: b'a'"),
        ("headers", {"a": 1}, "headers must have values of bytes, str or None; 'a' has int"),
    ],
)
def test_a_wrong_type_is_named(argument: str, given: object, sentence: str) -> None:
    with pytest.raises(TypeError) as raised:
        checked(**RECORD | {argument: given})
    assert str(raised.value) == sentence


@pytest.mark.parametrize("argument", ["key", "value"])
def test_keys_and_values_are_bytes(argument: str) -> None:
    with pytest.raises(SerializationError, match=f"The {argument} must be bytes, not int"):
        checked(**RECORD | {argument: 5})


def test_what_cannot_be_called_back_is_refused_before_anything_is_sent() -> None:
    not_callable: Any = 5
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:  # nobody answers there
        with pytest.raises(
            TypeError, match="on_delivery must be a function of the delivery, not int"
        ):
            producer.send("t", b"v", on_delivery=not_callable)
        with pytest.raises(
            TypeError, match="on_delivery must be a function of the delivery, not int"
        ):
            producer.send_many("t", [b"v"], on_delivery=not_callable)


def test_a_good_record_passes() -> None:
    assert checked(**RECORD) == []
    assert checked("t", None, None, None, None, None) == ()


def test_headers_become_pairs_of_text_and_bytes() -> None:
    assert pairs({"a": "é", "b": None}) == [("a", b"\xc3\xa9"), ("b", None)]
    assert pairs([["a", bytearray(b"x")], ("a", b"y")]) == [("a", b"x"), ("a", b"y")]
