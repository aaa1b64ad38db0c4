"""Any message of any version, seen in one shape: the adapter around kio's classes.

Handlers and clients see each API as kio's dataclass of the newest version that is spoken here, for
example ``kio.schema.metadata.v13.request.MetadataRequest``; what is on the wire is whatever version
the peer chose. Produce and Fetch have their own codecs (:mod:`moldau.wire.produce`,
:mod:`moldau.wire.fetch`): their newest shape knows topics by id only, and they are too hot for a
general one. OffsetCommit and OffsetFetch have shapes of our own for the same reason
(:mod:`moldau.wire.offset_shapes`).

Values in decoded messages: error codes are :class:`moldau.errors.ErrorCode` (an unknown one reads
as ``UNKNOWN_SERVER_ERROR``, as in Kafka's clients), durations are ``timedelta``, the zero UUID is
``None``. When encoding, durations may also be plain milliseconds and error codes plain ints
(:mod:`moldau.wire.make`).

Bytes after the end of a message are ignored, as Kafka ignores them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from struct import Struct
from typing import Any, Final

from moldau.errors import ErrorCode
from moldau.wire.api import FLEXIBLE_SINCE, ApiKey
from moldau.wire.decoding import Reader, reader
from moldau.wire.encoding import UNENCODABLE, Writer, writer
from moldau.wire.errors import DecodeError, EncodeError
from moldau.wire.headers import encode_request_header, read_response_header
from moldau.wire.lifting import Lower, lift_rule, lower_rule
from moldau.wire.make import THROTTLE
from moldau.wire.primitives import MALFORMED, MAX_ELEMENTS
from moldau.wire.schema import Direction, message_class, newest_class

__all__ = [
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "newest_class",
]

Buffer = bytes | bytearray | memoryview

_SIZE: Final = Struct(">i")
_SIZE_AND_CORRELATION: Final = Struct(">ii")
_INT16: Final = Struct(">h")
_WITHOUT_THROTTLE: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})
"""Answers that have no place for the time to hold back: only brokers ask for them."""
_MAX_RESPONSE_ELEMENTS: Final = 1 << 26
"""Answers come from brokers that we chose to ask, and a big cluster's metadata is long."""


def decode_request(
    api: ApiKey, version: int, buf: Buffer, pos: int, max_elements: int = MAX_ELEMENTS
) -> Any:
    """The request whose body starts at ``pos``, as kio's class of the newest version. Raises
    TooManyElementsError if its arrays have more elements in all.
    """
    return _decode(api, version, "request", memoryview(buf), pos, max_elements)


def decode_response(api: ApiKey, version: int, frame: Buffer) -> tuple[int, Any]:
    """Correlation id and message of a response frame (without its size)."""
    view = memoryview(frame)
    correlation_id, pos = read_response_header(api, version, view)
    if api == ApiKey.API_VERSIONS and _is_version_refused(view, pos):
        version = 0
    return correlation_id, _decode(api, version, "response", view, pos, _MAX_RESPONSE_ELEMENTS)


def encode_request(
    api: ApiKey, version: int, correlation_id: int, client_id: str | None, request: Any
) -> bytes:
    """A whole request frame, its size included."""
    out = bytearray(4)
    out += encode_request_header(api, version, correlation_id, client_id)
    return _encode(api, version, "request", out, request)


def encode_response(
    api: ApiKey, version: int, correlation_id: int, response: Any, throttle_ms: int = 0
) -> bytes:
    """A whole response frame, its size included."""
    if throttle_ms and api not in _WITHOUT_THROTTLE:
        response = replace(response, **{THROTTLE: throttle_ms})
    out = bytearray(_SIZE_AND_CORRELATION.pack(0, correlation_id))
    if version >= FLEXIBLE_SINCE[api] and api != ApiKey.API_VERSIONS:
        out.append(0)
    return _encode(api, version, "response", out, response)


def _is_version_refused(frame: memoryview, pos: int) -> bool:
    """A broker that does not know our ApiVersions version answers in version 0, with this error."""
    refused = int(ErrorCode.UNSUPPORTED_VERSION)
    return len(frame) >= pos + 2 and bool(_INT16.unpack_from(frame, pos)[0] == refused)


@cache
def _reader(api: ApiKey, version: int, direction: Direction) -> Reader:
    return reader(
        message_class(api, version, direction),
        newest_class(api, direction),
        lift_rule(api, version, direction),
    )


@cache
def _writer(api: ApiKey, version: int, direction: Direction) -> tuple[Writer, Lower | None]:
    lower = lower_rule(api, version, direction)
    source, target = newest_class(api, direction), message_class(api, version, direction)
    return writer(source, target, lower is not None), lower


def _decode(
    api: ApiKey, version: int, direction: Direction, buf: memoryview, pos: int, budget: int
) -> Any:
    read = _reader(api, version, direction)
    try:
        return read(buf, pos, [budget])[0]
    except MALFORMED as error:
        raise DecodeError(f"{api.name} {direction} version {version}: {error}") from error
    except DecodeError as error:
        raise type(error)(f"{api.name} {direction} version {version}: {error}") from None


def _encode(api: ApiKey, version: int, direction: Direction, out: bytearray, message: Any) -> bytes:
    write, lower = _writer(api, version, direction)
    try:
        write(out, message if lower is None else lower(message))
        _SIZE.pack_into(out, 0, len(out) - 4)
    except UNENCODABLE as error:
        raise EncodeError(f"{api.name} {direction} version {version}: {error}") from error
    return bytes(out)
