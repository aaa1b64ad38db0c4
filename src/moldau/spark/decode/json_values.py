"""Single JSON values, read as Spark's ``from_json`` reads them: what Arrow's parser cannot do.

That is maps, binary in base64, numbers where a string is wanted, seconds for timestamps, decimals
that have to be rounded, and the many ways in which a date may be written.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from moldau.spark.decode.columns import DecodeError, Values

Convert = Callable[[Any], Any]

_DATE: Final = r"(\d{4,5})(?:-(\d{1,2})(?:-(\d{1,2})"
_TIME: Final = r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?)?)?)?"
_MOMENT: Final = re.compile(rf"\s*{_DATE}{_TIME}\s*([A-Za-z+-].*)?", re.ASCII)
_DAY: Final = re.compile(rf"\s*{_DATE}(?:[ T].*)?)?)?\s*", re.ASCII)
_ZONE: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_NOT_NUMBERS: Final = {
    "NaN": "nan",
    **dict.fromkeys(("INF", "+INF", "Infinity", "+Infinity"), "inf"),
    **dict.fromkeys(("-INF", "-Infinity"), "-inf"),
}


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def json_values(values: Values, kind: pa.DataType) -> pa.Array:
    """A column of them; ``DecodeError`` says which value is not of the type."""
    convert = converter(kind)
    rows = [None if value is None else convert(_parse(value)) for value in values]
    try:
        return pa.array(rows, kind)
    except (ValueError, OverflowError) as error:  # halves of surrogates, times out of range
        raise DecodeError(str(error)) from None


def _parse(value: bytes) -> Any:
    try:
        return json.loads(value, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"JSON parse error: {error}") from None


def converter(kind: pa.DataType) -> Convert:
    """From a parsed value to one that Arrow takes for this type; nulls stay nulls."""
    convert = _nested(kind) or _scalar(kind)

    def checked(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except (ValueError, ArithmeticError, KeyError) as error:
            if isinstance(error, DecodeError):
                raise
            raise DecodeError(f"{_json(value)[:100]} is no {_spark_name(kind)}") from None

    return checked


def _spark_name(kind: pa.DataType) -> str:
    """As schemas have it; Arrow has names of its own."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        return from_arrow_type(kind).simpleString()
    except PySparkException:
        return str(kind)


def _struct(fields: dict[str, Convert]) -> Convert:
    def convert_all(value: Any) -> dict[str, Any]:
        given, found = _typed(value, dict), {}
        for name, convert in fields.items():
            try:
                found[name] = convert(given.get(name))
            except DecodeError as error:
                raise DecodeError(f"{name}: {error}") from None
        return found

    return convert_all


def _nested(kind: pa.DataType) -> Convert | None:
    if pa.types.is_struct(kind):
        return _struct({field.name: converter(field.type) for field in kind})
    if pa.types.is_map(kind):
        item = converter(kind.item_type)
        return lambda value: [(key, item(one)) for key, one in _typed(value, dict).items()]
    if pa.types.is_list(kind):
        element = converter(kind.value_type)
        return lambda value: [element(one) for one in _typed(value, list)]
    return None


def _scalar(kind: pa.DataType) -> Convert:
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if pa.types.is_integer(kind):
        return lambda value: _integer(value, kind.bit_width)
    if pa.types.is_timestamp(kind):
        return _moment if kind.tz is not None else _local_moment
    for matches, convert in _SCALARS:
        if matches(kind):
            return convert
    raise DecodeError(f"JSON is not read as {kind}")


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(value)
    return value


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    found = Decimal(_typed(value, str)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    if found.adjusted() >= precision - scale:
        raise ValueError(value)
    return found


def _integer(value: Any, bits: int) -> int:
    found = int(_typed(value, _Number))
    if not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise ValueError(value)
    return found


def _float(value: Any) -> float:
    if isinstance(value, _Number):
        return float(value)
    return float(_NOT_NUMBERS[_typed(value, str)])


def _binary(value: Any) -> bytes:
    return base64.b64decode(_string(value), validate=True)


def _string(value: Any) -> str:
    found: str = _typed(value, str)
    if isinstance(value, _Number):
        raise ValueError(value)
    return found


def text_of(value: Any) -> str:
    """What a string column shows of any value: its JSON."""
    if isinstance(value, str):
        return str(value)
    return _json(value)


def _json(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case dict():
            items = (f"{json.dumps(key)}:{_json(one)}" for key, one in value.items())
            return f"{{{','.join(items)}}}"
        case list():
            return f"[{','.join(map(_json, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _day(value: Any) -> date:
    found = _DAY.fullmatch(_string(value))
    if found is None:
        raise ValueError(value)
    year, month, day = found.groups()
    return date(int(year), int(month or 1), int(day or 1))


def _moment(value: Any) -> datetime:
    if isinstance(value, _Number):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(value))
    moment, zone = _split(_string(value))
    return moment.replace(tzinfo=zone or UTC)


def _local_moment(value: Any) -> datetime:
    moment, zone = _split(_string(value))
    if zone is not None:
        raise ValueError(value)
    return moment


def _split(text: str) -> tuple[datetime, tzinfo | None]:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    *parts, fraction, zone = found.groups()
    year, month, day = (int(part or 1) for part in parts[:3])
    hour, minute, second = (int(part or 0) for part in parts[3:])
    micros = int((fraction or "0").ljust(6, "0")[:6])
    moment = datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001
    return moment, None if zone is None else _zone(zone.strip())


def _zone(text: str) -> tzinfo:
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _ZONE.fullmatch(text)
    if found is None:
        return ZoneInfo(text)
    sign, *parts = found.groups()
    hours, minutes, seconds = (int(part or 0) for part in parts)
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(offset if sign == "+" else -offset)


_SCALARS: Final[tuple[tuple[Callable[[pa.DataType], bool], Convert], ...]] = (
    (pa.types.is_string, text_of),
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, lambda value: _typed(value, bool)),
    (pa.types.is_date, _day),
    (pa.types.is_binary, _binary),
)
