"""What serializer settings stand for."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.errors import ConfigError
from moldau.client.plugins import load_plugin
from moldau.client.producer.partitioners import RoundRobinPartitioner, partitioner_of
from moldau.client.serializers import deserializer_of, serializer_of


class Upper:
    def serialize(self, topic: str, value: str) -> bytes:
        return f"{topic}:{value.upper()}".encode()

    def deserialize(self, topic: str, data: bytes) -> str:
        return f"{topic}:{data.decode().lower()}"


class NeedsArguments:
    def __init__(self, one: int) -> None:
        self.one = one


def test_bytes_are_left_alone() -> None:
    assert serializer_of("bytes", "s") is None
    assert deserializer_of("bytes", "s") is None


@pytest.mark.parametrize(
    ("setting", "value", "data"),
    [
        ("str", "řeka", "řeka".encode()),
        ("json", {"a": [1, None]}, b'{"a":[1,null]}'),
    ],
)
def test_built_in_ones_go_both_ways(setting: str, value: Any, data: bytes) -> None:
    serialize, deserialize = serializer_of(setting, "s"), deserializer_of(setting, "s")
    assert serialize is not None
    assert deserialize is not None
    assert serialize("t", value) == data
    assert deserialize("t", data) == value


@pytest.mark.parametrize("setting", [Upper, Upper(), f"{__name__}:Upper", f"{__name__}.Upper"])
def test_objects_get_the_topic(setting: Any) -> None:
    serialize, deserialize = serializer_of(setting, "s"), deserializer_of(setting, "s")
    assert serialize is not None
    assert deserialize is not None
    assert serialize("t", "a") == b"t:A"
    assert deserialize("t", b"A") == "t:a"


def test_functions_get_the_value() -> None:
    serialize, deserialize = serializer_of(str.encode, "s"), deserializer_of(len, "s")
    assert serialize is not None
    assert deserialize is not None
    assert serialize("t", "xyz") == b"xyz"
    assert deserialize("t", b"xyz") == 3


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("nowhere.to.be:Found", "No module named 'nowhere'"),
        ("json.nothing", "has no attribute 'nothing'"),
        (NeedsArguments, "give an instance instead"),
        (5, "it has no serialize"),
        ("x", "there is nothing of this name here"),
    ],
)
def test_what_cannot_be_used_is_refused(setting: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        serializer_of(setting, "value.serializer")


def test_partitioners() -> None:
    assert partitioner_of(None) is None
    assert isinstance(partitioner_of("round_robin"), RoundRobinPartitioner)
    with pytest.raises(ConfigError, match=r"has no partition\(\)"):
        partitioner_of(Upper)


def test_instances_and_functions_are_taken_as_they_are() -> None:
    given = NeedsArguments(1)
    assert load_plugin(given, "s") is given
    assert load_plugin(len, "s") is len
