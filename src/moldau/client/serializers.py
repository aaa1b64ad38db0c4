"""Keys and values to bytes and back: as they are, text, JSON, or code of the user's own.

A plain function takes the value; an object's ``serialize`` and ``deserialize`` take the topic too.
None stays None: a record without a key, or a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from moldau.client.plugins import load_plugin
from moldau.config.option import invalid_value


@runtime_checkable
class Serializer(Protocol):
    def serialize(self, topic: str, value: Any) -> bytes | None: ...


@runtime_checkable
class Deserializer(Protocol):
    def deserialize(self, topic: str, data: bytes) -> Any: ...


Serialize = Callable[[str, Any], bytes | None]
Deserialize = Callable[[str, bytes], Any]

AS_IT_IS: Final = "bytes"


def serializer_of(setting: Any, name: str) -> Serialize | None:
    """What a serializer setting stands for; None for bytes as they are."""
    if setting == AS_IT_IS:
        return None
    if setting == "str":
        return _encode_text
    if setting == "json":
        import msgspec

        encode = msgspec.json.Encoder().encode
        return lambda _topic, value: encode(value)
    serializer = load_plugin(setting, name)
    if isinstance(serializer, Serializer):
        return serializer.serialize
    if callable(serializer):
        return lambda _topic, value: serializer(value)
    raise invalid_value(name, setting, "it has no serialize()")


def deserializer_of(setting: Any, name: str) -> Deserialize | None:
    """What a deserializer setting stands for; None for bytes as they are."""
    if setting == AS_IT_IS:
        return None
    if setting == "str":
        return lambda _topic, data: data.decode()
    if setting == "json":
        import msgspec

        decode = msgspec.json.Decoder().decode
        return lambda _topic, data: decode(data)
    deserializer = load_plugin(setting, name)
    if isinstance(deserializer, Deserializer):
        return deserializer.deserialize
    if callable(deserializer):
        return lambda _topic, data: deserializer(data)
    raise invalid_value(name, setting, "it has no deserialize()")


def _encode_text(_topic: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"a str is needed, not {type(value).__name__}")
    return value.encode()
