"""Messages that kio does not have, declared once for all their versions.

kio knows what is sent. What Kafka stores in its logs is declared here, in kio's form: a dataclass
whose fields name their Kafka type. Where kio has a class for each version, one class says of each
field which versions have it, as Kafka's own definitions do:

    @dataclass(frozen=True, slots=True)
    class OffsetCommitValue:
        NEWEST: ClassVar = 4
        FLEXIBLE: ClassVar = 4

        offset: int = field(metadata=INT64)
        leader_epoch: int = field(metadata=INT32 | since(3), default=-1, kw_only=True)
        topic_id: uuid.UUID | None = field(metadata=UUID | tagged(0, since=4), default=None)

``NEWEST`` is the newest version (without it: version 0), ``FLEXIBLE`` the first one with compact
lengths and tagged fields (without it: none has them). Structures inside others need neither. What
a version does not have keeps its default when it is read, and is left out when it is written. A
``uuid.UUID`` may be zero, a ``uuid.UUID | None`` is then None. Annotations are read at run time, so
modules with such classes do not postpone them.
"""

from __future__ import annotations

from dataclasses import Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Any, Final, get_args, get_origin

Metadata = dict[str, Any]

BOOL: Final[Metadata] = {"kafka_type": "bool"}
INT8: Final[Metadata] = {"kafka_type": "int8"}
INT16: Final[Metadata] = {"kafka_type": "int16"}
INT32: Final[Metadata] = {"kafka_type": "int32"}
INT64: Final[Metadata] = {"kafka_type": "int64"}
FLOAT64: Final[Metadata] = {"kafka_type": "float64"}
STRING: Final[Metadata] = {"kafka_type": "string"}
BYTES: Final[Metadata] = {"kafka_type": "bytes"}
UUID: Final[Metadata] = {"kafka_type": "uuid"}

_UNBOUNDED: Final = 1 << 15


def since(version: int, until: int = _UNBOUNDED) -> Metadata:
    """The versions that have a field, both ends included."""
    return {"since": version, "until": until}


def tagged(tag: int, *, since: int = 0) -> Metadata:
    """A field of the tagged section, which is left out when it has its default."""
    return {"tag": tag, "since": since}


def absent(value: object) -> Metadata:
    """What a tagged field is to Kafka when it is left out, where that is not the default here."""
    return {"absent": value}


def newest_declared(shape: type) -> int:
    """The newest version of a declared message."""
    newest: int = getattr(shape, "NEWEST", 0)
    return newest


def declared_version(shape: type, version: int) -> type:
    """One version of a declared message, as a class of its own in kio's form."""
    return _version_class(shape, version, version >= getattr(shape, "FLEXIBLE", _UNBOUNDED))


@cache
def _version_class(shape: type, version: int, flexible: bool) -> type:
    specs = [
        (declared.name, _in_version(declared.type, version, flexible), _copied(declared))
        for declared in fields(shape)
        if _has(declared, version)
    ]
    namespace = {"__flexible__": flexible}
    return make_dataclass(f"{shape.__name__}V{version}", specs, kw_only=True, namespace=namespace)


def _has(declared: Field[Any], version: int) -> bool:
    metadata = declared.metadata
    return bool(metadata.get("since", 0) <= version <= metadata.get("until", _UNBOUNDED))


def _copied(declared: Field[Any]) -> Any:
    default = declared.metadata.get("absent", declared.default)
    return field(metadata=declared.metadata, default=default)


def _in_version(annotation: Any, version: int, flexible: bool) -> Any:
    """An annotation with this version of the structures in it."""
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return _version_class(annotation, version, flexible)
    if get_origin(annotation) is tuple:
        element = _in_version(get_args(annotation)[0], version, flexible)
        return GenericAlias(tuple, (element, ...))
    if get_origin(annotation) is UnionType:
        (inner,) = (argument for argument in get_args(annotation) if argument is not NoneType)
        return _in_version(inner, version, flexible) | None
    return annotation
