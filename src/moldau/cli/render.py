"""How ``consume`` prints records.

A renderer turns one record into the bytes of one output line. Text formats write keys and values as
they are: what was produced from a file comes out as that file; terminals, which would obey escape
sequences in records, get them escaped. JSON is one object per line; bytes
that are not UTF-8 go into ``key_base64`` / ``value_base64`` instead of ``key`` / ``value``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from moldau.cli.parsing import format_timestamp, unescape
from moldau.printable import printable_json, printable_lines


class Readable(Protocol):
    """The fields of a record that is printed."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]: ...


Renderer = Callable[[str, int, Readable], bytes]
"""Topic, partition and record to the bytes that are written."""

FORMATS = ("text", "json", "hex", "base64")


@dataclass(frozen=True, slots=True)
class Columns:
    """What stands before the value in the text formats."""

    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    key: bool = False


def make_renderer(
    form: str,
    *,
    columns: Columns = Columns(),
    separator: str = "\t",
    delimiter: str = "\n",
    null: str = "",
    escape: bool = False,
) -> Renderer:
    """The renderer of a format name or of a template such as ``%p:%o %k=%v``.

    With ``escape``, for terminals, no record can do more than be shown.
    """
    if form == "json":
        return _render_printable_json if escape else render_json
    show = _printable if escape else _as_is
    if "%" in form:
        return _template_renderer(unescape(form), unescape(delimiter).encode(), null.encode(), show)
    encode = show if form == "text" else _ENCODINGS.get(form)
    if encode is None:
        raise ValueError(
            f"{form!r} is not a format: use {', '.join(FORMATS)} or a template such as '%k %v'"
        )
    return _column_renderer(
        columns,
        encode,
        show,
        unescape(separator).encode(),
        unescape(delimiter).encode(),
        null.encode(),
    )


def record_as_dict(topic: str, partition: int, record: Readable) -> dict[str, Any]:
    """The JSON object of a record; ``produce --format json`` reads the same."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [
            {"key": name, **text_or_base64("value", value)} for name, value in record.headers
        ],
    }


def render_json(topic: str, partition: int, record: Readable) -> bytes:
    import msgspec

    return msgspec.json.encode(record_as_dict(topic, partition, record)) + b"\n"


def _render_printable_json(topic: str, partition: int, record: Readable) -> bytes:
    return printable_json(render_json(topic, partition, record)).encode()


def text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    """One JSON field: text under its name, other bytes under ``name_base64``."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _as_is(data: bytes) -> bytes:
    return data


def _printable(data: bytes) -> bytes:
    return printable_lines(data.decode(errors="backslashreplace")).encode()


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


Encode = Callable[[bytes], bytes]

_ENCODINGS: dict[str, Encode] = {
    "hex": _hex,
    "base64": base64.b64encode,
}


def _column_renderer(
    columns: Columns,
    encode: Encode,
    show: Encode,
    separator: bytes,
    delimiter: bytes,
    null: bytes,
) -> Renderer:
    def bytes_or_null(data: bytes | None) -> bytes:
        return null if data is None else encode(data)

    if columns == Columns():
        return lambda _topic, _partition, record: bytes_or_null(record.value) + delimiter

    def render(_topic: str, partition: int, record: Readable) -> bytes:
        fields = []
        if columns.timestamp:
            fields.append(format_timestamp(record.timestamp).encode())
        if columns.partition:
            fields.append(b"%d" % partition)
        if columns.offset:
            fields.append(b"%d" % record.offset)
        if columns.headers:
            fields.append(show(_headers_text(record, null)))
        if columns.key:
            fields.append(bytes_or_null(record.key))
        fields.append(bytes_or_null(record.value))
        return separator.join(fields) + delimiter

    return render


def _headers_text(record: Readable, null: bytes) -> bytes:
    """``name=value,name=value``: kcat's form."""
    return b",".join(
        name.encode() + b"=" + (null if value is None else value) for name, value in record.headers
    )


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


class _Line(NamedTuple):
    """What a template letter can draw on."""

    topic: str
    partition: int
    record: Readable
    null: bytes
    show: Encode

    def shown(self, data: bytes | None) -> bytes:
        return self.null if data is None else self.show(data)


_FIELDS: dict[str, Callable[[_Line], bytes]] = {
    "t": lambda line: line.show(line.topic.encode()),
    "p": lambda line: b"%d" % line.partition,
    "o": lambda line: b"%d" % line.record.offset,
    "k": lambda line: line.shown(line.record.key),
    "v": lambda line: line.shown(line.record.value),
    "s": lambda line: line.shown(line.record.value),
    "K": lambda line: _length(line.record.key),
    "V": lambda line: _length(line.record.value),
    "S": lambda line: _length(line.record.value),
    "T": lambda line: b"%d" % line.record.timestamp,
    "d": lambda line: format_timestamp(line.record.timestamp).encode(),
    "h": lambda line: line.show(_headers_text(line.record, line.null)),
    "%": lambda _: b"%",
}
"""Template letters. Where kcat has one too, it means the same."""


def _template_renderer(template: str, delimiter: bytes, null: bytes, show: Encode) -> Renderer:
    pieces = re.split(r"%(.)", template, flags=re.DOTALL)
    literals = [piece.encode() for piece in pieces[::2]]
    if literals[-1].endswith(b"%"):
        raise ValueError("a template cannot end with a single %: write %% for a percent sign")
    fields = []
    for letter in pieces[1::2]:
        if letter not in _FIELDS:
            known = ", ".join(f"%{name}" for name in _FIELDS)
            raise ValueError(f"%{letter} is unknown in a template: use {known}")
        fields.append(_FIELDS[letter])

    def render(topic: str, partition: int, record: Readable) -> bytes:
        line = _Line(topic, partition, record, null, show)
        out = [literals[0]]
        for field, literal in zip(fields, literals[1:], strict=True):
            out.append(field(line))
            out.append(literal)
        out.append(delimiter)
        return b"".join(out)

    return render
