"""How ``produce`` reads its input: bytes to lines, lines to records."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.cli.parsing import parse_pair

FORMATS = ("raw", "json", "hex", "base64")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class InputRecord:
    """One record as read from the input, not yet assigned to a partition or a time."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


class LineSplitter:
    """Cuts a stream of chunks at a delimiter; the last line needs none."""

    def __init__(self, delimiter: bytes = b"\n") -> None:
        if not delimiter:
            raise ValueError("the delimiter cannot be empty")
        self._delimiter = delimiter
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + chunk).split(self._delimiter)
        return lines

    def finish(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


class LineParser:
    """Turns lines into records with the defaults given on the command line."""

    def __init__(
        self,
        form: str = "raw",
        *,
        key: bytes | None = None,
        key_separator: bytes | None = None,
        headers: Sequence[str] = (),
        null_value: bytes | None = None,
    ) -> None:
        if form not in FORMATS:
            raise ValueError(f"{form!r} is not an input format: use {', '.join(FORMATS)}")
        self._json = form == "json"
        if self._json and (key is not None or key_separator is not None):
            raise ValueError("with --format json the key comes from each line, not from an option")
        if key is not None and key_separator is not None:
            raise ValueError("use either --key or --key-separator, not both")
        self._decode = _DECODERS.get(form, _as_is)
        self._key = key
        self._key_separator = key_separator
        self._null_value = null_value
        self._headers: Headers = tuple(
            (name, value.encode()) for name, value in map(parse_pair, headers)
        )

    def parse(self, line: bytes) -> InputRecord:
        """Raises ``ValueError`` with a sentence when the line is not of the format."""
        if self._json:
            return self._parse_json(line)
        key, value = self._key, line
        if self._key_separator is not None:
            raw_key, separator, value = line.partition(self._key_separator)
            if not separator:
                raise ValueError(f"no key separator {self._key_separator!r} in {_shown(line)}")
            key = self._decode(raw_key)
        if self._null_value is not None and value == self._null_value:
            return InputRecord(key, None, self._headers)
        return InputRecord(key, self._decode(value), self._headers)

    def parse_all(self, lines: Sequence[bytes], first_number: int) -> Iterator[InputRecord]:
        """Parse lines and say in which line of the input the error is."""
        for number, line in enumerate(lines, first_number):
            try:
                yield self.parse(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None

    def _parse_json(self, line: bytes) -> InputRecord:
        import msgspec

        try:
            fields = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"not JSON ({error}): {_shown(line)}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"not a JSON object with key and value: {_shown(line)}")
        headers = tuple(
            (str(header["key"]), _bytes_field(header, "value"))
            for header in fields.get("headers") or ()
        )
        return InputRecord(
            _bytes_field(fields, "key"),
            _bytes_field(fields, "value"),
            self._headers + headers,
            _int_field(fields, "partition"),
            _int_field(fields, "timestamp"),
        )


def _as_is(data: bytes) -> bytes:
    return data


def _from_hex(data: bytes) -> bytes:
    try:
        return binascii.unhexlify(b"".join(data.split()))
    except binascii.Error:
        raise ValueError(f"not hexadecimal: {_shown(data)}") from None


def _from_base64(data: bytes) -> bytes:
    try:
        return base64.b64decode(data.strip(), validate=True)
    except binascii.Error:
        raise ValueError(f"not base64: {_shown(data)}") from None


_DECODERS: dict[str, Callable[[bytes], bytes]] = {"hex": _from_hex, "base64": _from_base64}


def _bytes_field(fields: dict[str, Any], name: str) -> bytes | None:
    """Text as UTF-8, other JSON values as JSON text, ``name_base64`` as the bytes it stands for."""
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        return _from_base64(str(encoded).encode())
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    import msgspec

    return msgspec.json.encode(value)


def _int_field(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is not a whole number: {value!r}")


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    return repr(text if len(text) <= 60 else text[:57] + "…")
