"""Readers built from the schema: bytes of any version into the newest shape, in one pass.

``reader(source, target)`` walks the fields of the ``source`` class (the version on the wire) and
builds a ``target`` instance (the newest version): fields by name, the default for what the old
version did not have, and whatever :mod:`moldau.wire.lifting` says where the shape changed. Readers
are closures made once per pair of classes; neighbouring fields of fixed size are read with one
``unpack_from``.

Nothing here trusts the bytes: a length is compared with what is left before anything is allocated,
as in Kafka, and the number of array elements in one message is bounded (``MAX_ELEMENTS``). Tags
that this version does not know are skipped, as the protocol demands (KIP-482).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from itertools import groupby
from struct import Struct
from typing import Any, Final

from moldau.wire.errors import DecodeError, TooManyElementsError
from moldau.wire.primitives import (
    check_text_length,
    error_from,
    read_compact_text,
    read_legacy_text,
    read_length,
    read_tag_count,
    read_uvarint,
    text_from,
    uuid_from,
)
from moldau.wire.schema import FIXED, FieldSpec, fields_of, is_flexible, smallest_size
from moldau.wire.times import EPOCH

Budget = list[int]
"""One number: how many more array elements the message may have."""
Reader = Callable[[memoryview, int, Budget], tuple[Any, int]]
"""Reads one value: buffer, position, budget → value, position after it."""
Step = Callable[[memoryview, int, dict[str, Any], Budget], int]
"""Reads some fields into a dict by name, and returns the position after them."""
Lift = Callable[[dict[str, Any]], None]
"""Turns the fields of an old version into those of the newest, in place."""

_INT16: Final = Struct(">h")
_NO_UUID: Final = bytes(16)


def _timedelta(ms: int) -> timedelta:
    return timedelta(milliseconds=ms)


def _long_timedelta(ms: int) -> timedelta:
    try:
        return timedelta(milliseconds=ms)
    except OverflowError:  # "for ever", spelled as the largest 64-bit number
        return timedelta.max if ms > 0 else timedelta.min


def _datetime(ms: int) -> datetime | None:
    return None if ms == -1 else EPOCH + timedelta(milliseconds=ms)


def _uuid(raw: bytes) -> Any:
    return None if raw == _NO_UUID else uuid_from(raw)


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "error_code": error_from,
    "timedelta_i32": _timedelta,
    "timedelta_i64": _long_timedelta,
    "datetime_i64": _datetime,
    "uuid": _uuid,
}


def _converter(spec: FieldSpec) -> Callable[[Any], Any] | None:
    if spec.kind == "uuid" and not (spec.nullable or spec.is_array):
        return uuid_from
    return _CONVERTERS.get(spec.kind)


@cache
def reader(source: type, target: type, lift: Lift | None = None) -> Reader:
    """A reader of ``source`` bytes that builds ``target``."""
    wanted = {spec.name: spec for spec in fields_of(target)}
    specs = fields_of(source)
    flexible = is_flexible(source)
    steps = _steps([spec for spec in specs if spec.tag is None], wanted, flexible)
    if flexible:
        steps.append(_tagged_step([spec for spec in specs if spec.tag is not None], wanted))
    have = {spec.name for spec in specs}
    defaults = {
        spec.name: spec.default
        for spec in (*wanted.values(), *specs)
        if spec.name not in have or spec.tag is not None
    }
    dropped = tuple(sorted(name for name in have if name not in wanted))
    if lift is None and not dropped:

        def read_plain(buf: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
            values = defaults.copy()
            for step in steps:
                pos = step(buf, pos, values, budget)
            return target(**values), pos

        return read_plain

    def read(buf: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        values = defaults.copy()
        for step in steps:
            pos = step(buf, pos, values, budget)
        if lift is not None:
            lift(values)
        for name in dropped:
            values.pop(name, None)
        return target(**values), pos

    return read


def _steps(specs: list[FieldSpec], wanted: dict[str, FieldSpec], flexible: bool) -> list[Step]:
    steps: list[Step] = []
    for fixed, run in groupby(specs, lambda spec: spec.kind in FIXED and not spec.is_array):
        if fixed:
            steps.append(_fixed_step(list(run)))
        else:
            steps += [_step(spec, wanted, flexible) for spec in run]
    return steps


def _fixed_step(specs: list[FieldSpec]) -> Step:
    layout = Struct(">" + "".join(FIXED[spec.kind] for spec in specs))
    unpack, size = layout.unpack_from, layout.size
    names = tuple(spec.name for spec in specs)
    converters = tuple(
        (spec.name, convert) for spec in specs if (convert := _converter(spec)) is not None
    )

    if len(specs) == 1 and not converters:
        (only,) = names

        def single(buf: memoryview, pos: int, values: dict[str, Any], _budget: Budget) -> int:
            values[only] = unpack(buf, pos)[0]
            return pos + size

        return single

    def step(buf: memoryview, pos: int, values: dict[str, Any], _budget: Budget) -> int:
        values.update(zip(names, unpack(buf, pos), strict=True))
        for name, convert in converters:
            values[name] = convert(values[name])
        return pos + size

    return step


def _step(spec: FieldSpec, wanted: dict[str, FieldSpec], flexible: bool) -> Step:
    """Strings are by far the most frequent: they are read in fewer calls."""
    if spec.kind == "string" and not spec.is_array:
        return _string_step(spec, flexible)
    return _value_step(spec.name, _field_reader(spec, wanted, flexible))


def _string_step(spec: FieldSpec, flexible: bool) -> Step:
    name, nullable = spec.name, spec.nullable

    def step(buf: memoryview, pos: int, values: dict[str, Any], _budget: Budget) -> int:
        if flexible:
            length = buf[pos] - 1
            pos += 1
            if length >= 0x7F:
                length, pos = read_length(buf, pos - 1, True)
                check_text_length(length)
        else:
            length = _INT16.unpack_from(buf, pos)[0]
            pos += 2
        if length < 0:
            if not nullable:
                raise DecodeError(f"null where the string {name} must be")
            values[name] = None
            return pos
        end = pos + length
        if end > len(buf):
            raise DecodeError("string reaches past the end of the message")
        values[name] = text_from(buf[pos:end].tobytes())
        return end

    return step


def _value_step(name: str, read: Reader) -> Step:
    def step(buf: memoryview, pos: int, values: dict[str, Any], budget: Budget) -> int:
        values[name], pos = read(buf, pos, budget)
        return pos

    return step


def _tagged_step(specs: list[FieldSpec], wanted: dict[str, FieldSpec]) -> Step:
    readers = {spec.tag: (spec.name, _field_reader(spec, wanted, True)) for spec in specs}

    def step(buf: memoryview, pos: int, values: dict[str, Any], budget: Budget) -> int:
        count, pos = read_tag_count(buf, pos)
        while count:
            tag, pos = read_uvarint(buf, pos)
            size, pos = read_uvarint(buf, pos)
            end = pos + size
            if end > len(buf):
                raise DecodeError("tagged field reaches past the end of the message")
            known = readers.get(tag)
            if known is not None:
                values[known[0]], pos = known[1](buf, pos, budget)
                if pos != end:
                    raise DecodeError(f"tagged field {known[0]} is not {size} bytes")
            pos = end
            count -= 1
        return pos

    return step


def _field_reader(spec: FieldSpec, wanted: dict[str, FieldSpec], flexible: bool) -> Reader:
    target = wanted.get(spec.name)
    if spec.entity is not None:
        into = target.entity if target is not None and target.entity is not None else spec.entity
        read = reader(spec.entity, into)
        smallest = smallest_size(spec.entity)
        if not spec.is_array:
            return _nullable_entity(read, spec) if spec.nullable else read
    elif spec.kind in FIXED:
        if spec.is_array:
            return _fixed_array(spec, flexible)
        return _fixed_value(spec)
    elif spec.kind == "string":
        nullable = spec.nullable and not spec.is_array
        read, smallest = _string(flexible, nullable), 1 if flexible else 2
    else:
        read, smallest = _bytes(flexible, spec.nullable), 1 if flexible else 4
    return _array(read, smallest, spec, flexible) if spec.is_array else read


def _nullable_entity(read_entity: Reader, spec: FieldSpec) -> Reader:
    """KIP-893: one byte in front, for null negative, or zero in a tagged field."""
    nulls = range(0x80, 0x100) if spec.tag is None else range(1)

    def read(buf: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        if buf[pos] in nulls:
            return None, pos + 1
        return read_entity(buf, pos + 1, budget)

    return read


def _fixed_value(spec: FieldSpec) -> Reader:
    layout = Struct(">" + FIXED[spec.kind])
    convert = _converter(spec)

    def read(buf: memoryview, pos: int, _budget: Budget) -> tuple[Any, int]:
        value = layout.unpack_from(buf, pos)[0]
        return value if convert is None else convert(value), pos + layout.size

    return read


def _string(flexible: bool, nullable: bool) -> Reader:
    read_text = read_compact_text if flexible else read_legacy_text

    def read(buf: memoryview, pos: int, _budget: Budget) -> tuple[str | None, int]:
        text, pos = read_text(buf, pos)
        if text is None and not nullable:
            raise DecodeError("null where a string must be")
        return text, pos

    return read


def _bytes(flexible: bool, nullable: bool) -> Reader:
    def read(buf: memoryview, pos: int, _budget: Budget) -> tuple[bytes | None, int]:
        length, pos = read_length(buf, pos, flexible)
        if length < 0:
            if nullable:
                return None, pos
            raise DecodeError("null where bytes must be")
        end = pos + length
        if end > len(buf):
            raise DecodeError("bytes reach past the end of the message")
        return buf[pos:end].tobytes(), end

    return read


def _array(read_item: Reader, smallest: int, spec: FieldSpec, flexible: bool) -> Reader:
    def read(buf: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        count, pos = _array_length(buf, pos, smallest, spec, flexible, budget)
        if count < 0:
            return None, pos
        items = []
        for _ in range(count):
            item, pos = read_item(buf, pos, budget)
            items.append(item)
        return tuple(items), pos

    return read


def _fixed_array(spec: FieldSpec, flexible: bool) -> Reader:
    layout = Struct(">" + FIXED[spec.kind])
    convert = _CONVERTERS.get(spec.kind)

    def read(buf: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        count, pos = _array_length(buf, pos, layout.size, spec, flexible, budget)
        if count < 0:
            return None, pos
        end = pos + count * layout.size
        values = (value for (value,) in layout.iter_unpack(buf[pos:end]))
        return tuple(values if convert is None else map(convert, values)), end

    return read


def _array_length(
    buf: memoryview, pos: int, smallest: int, spec: FieldSpec, flexible: bool, budget: Budget
) -> tuple[int, int]:
    """An array's length, checked before anything is made of it; -1 for null."""
    count, pos = read_length(buf, pos, flexible)
    if count < 0:
        if spec.nullable:
            return -1, pos
        raise DecodeError(f"null where the array {spec.name} must be")
    if count * smallest > len(buf) - pos:
        raise DecodeError(f"{spec.name}: {count} elements, but only {len(buf) - pos} bytes left")
    budget[0] -= count
    if budget[0] < 0:
        raise TooManyElementsError("more array elements than any sane message has")
    return count, pos
