"""Writers built from the schema: a message in the newest shape into the bytes of any version.

``writer(source, target)`` writes what ``target`` (the version on the wire) has, taken by name from
an object of the ``source`` shape (the newest version). Fields that only the old version has get
its default, unless :mod:`moldau.wire.lifting` supplies them. No object of the old version is ever
built.

Writers are closures made once per pair of classes; neighbouring fields of fixed size go out with
one ``pack``. Durations and times may be given as kio's types or as plain milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - reads as what it is
from typing import Any, Final
from uuid import UUID

from moldau.wire.errors import EncodeError
from moldau.wire.primitives import compact_string, legacy_string, length_prefix, uvarint
from moldau.wire.schema import FIXED, FieldSpec, fields_of, is_flexible
from moldau.wire.times import milliseconds, timestamp_ms

Writer = Callable[[bytearray, Any], None]
"""Appends one value to a buffer."""

UNENCODABLE: Final = (StructError, AttributeError, TypeError, ValueError, OverflowError)
"""What values raise that do not fit the fields they are meant for."""

_NO_UUID: Final = bytes(16)


def _uuid(value: UUID | None) -> bytes:
    return _NO_UUID if value is None else value.bytes


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "timedelta_i32": milliseconds,
    "timedelta_i64": milliseconds,
    "datetime_i64": timestamp_ms,
    "uuid": _uuid,
}


@cache
def writer(source: type, target: type, lowered: bool = False) -> Writer:
    """A writer of ``target`` bytes from ``source`` objects.

    ``lowered`` says that the object was already given the attributes of ``target``.
    """
    have = {spec.name: spec for spec in fields_of(target if lowered else source)}
    specs = fields_of(target)
    flexible = is_flexible(target)
    steps = _steps([spec for spec in specs if spec.tag is None], have, flexible)
    if flexible:
        steps.append(_tagged_step([spec for spec in specs if spec.tag is not None], have))
    if len(steps) == 1:
        return steps[0]

    def write(out: bytearray, message: Any) -> None:
        for step in steps:
            step(out, message)

    return write


def _steps(specs: list[FieldSpec], have: dict[str, FieldSpec], flexible: bool) -> list[Writer]:
    steps: list[Writer] = []

    def kind_of(spec: FieldSpec) -> str:
        if spec.name not in have:
            return "constant"
        return "fixed" if spec.kind in FIXED and not spec.is_array else "value"

    for kind, group in groupby(specs, kind_of):
        run = list(group)
        if kind == "constant":
            steps.append(_constant_step(run, flexible))
        elif kind == "fixed":
            steps.append(_fixed_step(run))
        else:
            steps += [_step(spec, have, flexible) for spec in run]
    return steps


def _constant_step(specs: list[FieldSpec], flexible: bool) -> Writer:
    """Fields that the newest shape no longer has: always their default."""
    encoded = bytearray()
    for spec in specs:
        _field_writer(spec, {}, flexible)(encoded, spec.default)
    constant = bytes(encoded)

    def step(out: bytearray, _message: Any) -> None:
        out += constant

    return step


def _fixed_step(specs: list[FieldSpec]) -> Writer:
    pack_run = Struct(">" + "".join(FIXED[spec.kind] for spec in specs)).pack
    get = attrgetter(*(spec.name for spec in specs))
    converters = tuple(
        (i, _CONVERTERS[spec.kind]) for i, spec in enumerate(specs) if spec.kind in _CONVERTERS
    )
    if len(specs) == 1:
        convert = converters[0][1] if converters else None

        def one(out: bytearray, message: Any) -> None:
            value = get(message)
            out += pack_run(value if convert is None else convert(value))

        return one
    if not converters:

        def plain(out: bytearray, message: Any) -> None:
            out += pack_run(*get(message))

        return plain

    def converted(out: bytearray, message: Any) -> None:
        values = list(get(message))
        for i, convert in converters:
            values[i] = convert(values[i])
        out += pack_run(*values)

    return converted


def _step(spec: FieldSpec, have: dict[str, FieldSpec], flexible: bool) -> Writer:
    """Strings are by far the most frequent: they are written in fewer calls."""
    if spec.kind == "string" and not spec.is_array:
        return _string_step(spec, flexible)
    return _value_step(spec, have, flexible)


def _string_step(spec: FieldSpec, flexible: bool) -> Writer:
    get = attrgetter(spec.name)
    encode = compact_string if flexible else legacy_string
    nullable = spec.nullable

    def step(out: bytearray, message: Any) -> None:
        value = get(message)
        if value is None and not nullable:
            raise EncodeError(f"{spec.name} must not be null in this version")
        out += encode(value)

    return step


def _value_step(spec: FieldSpec, have: dict[str, FieldSpec], flexible: bool) -> Writer:
    get = attrgetter(spec.name)
    write = _field_writer(spec, have, flexible)

    def step(out: bytearray, message: Any) -> None:
        write(out, get(message))

    return step


def _tagged_step(specs: list[FieldSpec], have: dict[str, FieldSpec]) -> Writer:
    """The tagged section: only what differs from its default, in the order of tags."""
    known = tuple(
        (uvarint(tag), attrgetter(spec.name), spec.default, _field_writer(spec, have, True))
        for tag, spec in sorted(
            (spec.tag, spec) for spec in specs if spec.tag is not None and spec.name in have
        )
    )
    if not known:

        def empty(out: bytearray, _message: Any) -> None:
            out.append(0)

        return empty

    def step(out: bytearray, message: Any) -> None:
        section = bytearray()
        count = 0
        for tag, get, default, write in known:
            value = get(message)
            if value == default:
                continue
            encoded = bytearray()
            write(encoded, value)
            section += tag
            section += uvarint(len(encoded))
            section += encoded
            count += 1
        out += uvarint(count)
        out += section

    return step


def _field_writer(spec: FieldSpec, have: dict[str, FieldSpec], flexible: bool) -> Writer:
    if spec.entity is not None:
        origin = have.get(spec.name)
        source = origin.entity if origin is not None and origin.entity is not None else spec.entity
        write = writer(source, spec.entity)
        if spec.is_array:
            return _array(write, spec, flexible)
        return _nullable_entity(write, spec) if spec.nullable else write
    if spec.kind in FIXED:
        return _fixed_array(spec, flexible) if spec.is_array else _fixed_value(spec)
    if spec.kind == "string":
        nullable = spec.nullable and not spec.is_array
        write = _string(spec, flexible, nullable)
    else:
        write = _bytes(spec, flexible, spec.nullable and not spec.is_array)
    return _array(write, spec, flexible) if spec.is_array else write


def _nullable_entity(write_entity: Writer, spec: FieldSpec) -> Writer:
    """KIP-893: one byte in front, for null negative, or zero in a tagged field."""
    null = 0xFF if spec.tag is None else 0

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(1)
            write_entity(out, value)

    return write


def _fixed_value(spec: FieldSpec) -> Writer:
    pack_one = Struct(">" + FIXED[spec.kind]).pack
    convert = _CONVERTERS.get(spec.kind)

    def write(out: bytearray, value: Any) -> None:
        out += pack_one(value if convert is None else convert(value))

    return write


def _string(spec: FieldSpec, flexible: bool, nullable: bool) -> Writer:
    encode = compact_string if flexible else legacy_string

    def write(out: bytearray, value: str | None) -> None:
        if value is None and not nullable:
            raise EncodeError(f"{spec.name} must not be null in this version")
        out += encode(value)

    return write


def _bytes(spec: FieldSpec, flexible: bool, nullable: bool) -> Writer:
    def write(out: bytearray, value: bytes | None) -> None:
        if value is None:
            if not nullable:
                raise EncodeError(f"{spec.name} must not be null in this version")
            out += length_prefix(-1, flexible)
        else:
            out += length_prefix(len(value), flexible)
            out += value

    return write


def _put_count(
    out: bytearray, items: Sequence[Any] | None, spec: FieldSpec, flexible: bool
) -> None:
    if items is None and not spec.nullable:
        raise EncodeError(f"{spec.name} must not be null in this version")
    out += length_prefix(-1 if items is None else len(items), flexible)


def _array(write_item: Writer, spec: FieldSpec, flexible: bool) -> Writer:
    def write(out: bytearray, items: Sequence[Any] | None) -> None:
        _put_count(out, items, spec, flexible)
        for item in items or ():
            write_item(out, item)

    return write


def _fixed_array(spec: FieldSpec, flexible: bool) -> Writer:
    code = FIXED[spec.kind]
    convert = _CONVERTERS.get(spec.kind)

    def write(out: bytearray, items: Sequence[Any] | None) -> None:
        _put_count(out, items, spec, flexible)
        if items:
            if convert is None:
                out += pack(f">{len(items)}{code}", *items)
            else:
                one = Struct(">" + code)
                for item in items:
                    out += one.pack(convert(item))

    return write
