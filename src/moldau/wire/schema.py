"""Message classes, read as a schema.

kio (generated from Kafka's own message definitions) gives one frozen dataclass per API, version and
direction. This module loads them one by one as versions are first used, and describes their fields
in the few words that the codecs need. Classes of our own in the same form (``declaring.py``,
``offset_shapes.py``) are described alike; everybody else sees the newest class of a message, or the
shape that completes it. kio's own reader and writer are not used: see
``docs/adr/0002-kio-behind-one-adapter.md``.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin

from moldau.errors import ErrorCode
from moldau.wire.api import KNOWN, ApiKey, newest_version
from moldau.wire.errors import UnsupportedVersionError

Direction = Literal["request", "response"]

FIXED: Final[dict[str, str]] = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""Kinds of a fixed size, as struct codes."""

_IMPLICIT_DEFAULTS: Final[dict[str, object]] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": ErrorCode.NONE,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": datetime(1970, 1, 1, tzinfo=UTC),
}


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a message in one version."""

    name: str
    kind: str
    """Kafka's type name, or ``entity``."""
    is_array: bool
    nullable: bool
    tag: int | None
    entity: type | None
    """The class of the nested entity, or of an array's elements."""
    default: Any
    """What a reader sees when the field was not sent: the schema's default, or its type's zero."""


def _keep_hypothesis_out() -> None:
    """Import kio's base without hypothesis.

    kio registers strategies for its types as soon as hypothesis can be imported, which costs a
    broker on a developer's machine 150 ms at start. A ``None`` in ``sys.modules`` makes that one
    import fail, as it does where hypothesis is not installed; a process that already runs under it
    is left alone.
    """
    if "hypothesis" in sys.modules:
        return
    blocked: dict[str, Any] = sys.modules
    blocked["hypothesis"] = None
    try:
        import_module("kio.static.primitive")
    finally:
        del blocked["hypothesis"]


_keep_hypothesis_out()


@cache
def message_class(api: ApiKey, version: int, direction: Direction) -> type:
    """kio's class of this message."""
    served = KNOWN.get(api)
    if served is None or not served.oldest <= version <= served.newest:
        raise UnsupportedVersionError(f"{api.name} version {version} is not spoken here")
    module = import_module(f"kio.schema.{api.name.lower()}.v{version}.{direction}")
    words = [*api.name.split("_"), direction]
    loaded: type = getattr(module, "".join(word.capitalize() for word in words))
    return loaded


_WITH_NAMES_AND_IDS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH})


@cache
def newest_class(api: ApiKey, direction: Direction) -> type:
    """The class that messages of this API are seen as, whatever version is on the wire."""
    newest = message_class(api, newest_version(api), direction)
    if api in _WITH_NAMES_AND_IDS:
        newest = getattr(import_module("moldau.wire.offset_shapes"), newest.__name__)
    return newest


def is_flexible(message: type) -> bool:
    flexible: bool = message.__flexible__  # type: ignore[attr-defined]  # kio's generated constant
    return flexible


@cache
def fields_of(message: type) -> tuple[FieldSpec, ...]:
    """The fields of a kio class, in wire order."""
    specs = []
    for field in fields(message):
        is_array, nullable, inner = _unwrap(field.type)
        entity = inner if is_dataclass(inner) else None
        kind = "entity" if entity is not None else str(field.metadata["kafka_type"])
        if field.default is not MISSING:
            default = field.default
        else:
            default = _implicit_default(kind, is_array, nullable, entity)
        specs.append(
            FieldSpec(
                field.name, kind, is_array, nullable, field.metadata.get("tag"), entity, default
            )
        )
    return tuple(specs)


def _unwrap(annotation: Any) -> tuple[bool, bool, type]:
    """Whether an annotation is an array, whether it is nullable, and the type inside."""
    nullable = False
    if get_origin(annotation) is UnionType:
        nullable = True
        (annotation,) = (arg for arg in get_args(annotation) if arg is not NoneType)
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        if get_origin(item) is UnionType:
            # Only UUIDs: kio's None for the zero UUID, which is not a null on the wire.
            (item,) = (arg for arg in get_args(item) if arg is not NoneType)
        return True, nullable, item
    return False, nullable, annotation


def _implicit_default(kind: str, is_array: bool, nullable: bool, entity: type | None) -> object:
    if is_array:
        return None if nullable else ()
    if nullable:
        return None
    if entity is not None:
        return entity(**{spec.name: spec.default for spec in fields_of(entity)})
    return _IMPLICIT_DEFAULTS.get(kind, 0)


@cache
def smallest_size(message: type) -> int:
    """The fewest bytes an entity can take: what an array's length is checked against."""
    flexible = is_flexible(message)
    size = 1 if flexible else 0
    for spec in fields_of(message):
        if spec.tag is None:
            size += _smallest_field(spec, flexible)
    return size


def _smallest_field(spec: FieldSpec, flexible: bool) -> int:
    if spec.is_array:
        return 1 if flexible else 4
    if spec.entity is not None:
        return 1 if spec.nullable else smallest_size(spec.entity)
    if spec.kind in FIXED:
        return {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "16s": 16}.get(FIXED[spec.kind], 8)
    if flexible:
        return 1
    return 2 if spec.kind == "string" else 4
