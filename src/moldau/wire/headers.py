"""Request and response headers.

A request starts with its API key, version, correlation id and client id (header version 1);
flexible versions add a tagged section (header version 2), but the client id keeps its old 16-bit
length. A response starts with the correlation id, plus a tagged section in flexible versions; the
answer to ApiVersions never has one, because the peer may not know which version it will get.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from moldau.wire.api import FLEXIBLE_SINCE, ApiKey
from moldau.wire.errors import DecodeError
from moldau.wire.primitives import MALFORMED, legacy_string, skip_tags, text_from

_FIXED: Final = Struct(">hhih")
_INT32: Final = Struct(">i")
_KEYS: Final = len(FLEXIBLE_SINCE)

FIRST_PRIVATE_KEY: Final = 10_000
"""Where the keys begin of what brokers of one cluster ask of each other (``wire/private.py``)."""
END_OF_PRIVATE_KEYS: Final = FIRST_PRIVATE_KEY + 100


@dataclass(init=False)
class RequestHeader:
    """What precedes each request. Some clients send a null id; Kafka reads that as empty."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


def read_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header of a request frame (without its size), and where the body starts.

    Raises :class:`DecodeError` also for an API key that Kafka does not have: its header cannot be
    read. Whether the API and version are served is the caller's question
    (:func:`moldau.wire.api.is_served`); so it is with a private key, whose header has no tags.
    """
    try:
        api_key, version, correlation_id, length = _FIXED.unpack_from(frame, 0)
        is_private = FIRST_PRIVATE_KEY <= api_key < END_OF_PRIVATE_KEYS
        if not (0 <= api_key < _KEYS or is_private):
            raise DecodeError(f"unknown API key {api_key}")
        if length > 0:
            pos = 10 + length
            raw = frame[10:pos].tobytes()
            if len(raw) != length:
                raise DecodeError("client id reaches past the end of the frame")
            client_id: str | None = text_from(raw)
        else:
            pos = 10
            client_id = "" if length == 0 else None
        if not is_private and version >= FLEXIBLE_SINCE[api_key]:
            # Nearly always an empty section: one zero byte.
            pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos)
    except MALFORMED as error:
        raise DecodeError(f"bad request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id), pos


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The header bytes (without the frame size)."""
    header = _FIXED.pack(api_key, api_version, correlation_id, 0)[:8] + legacy_string(client_id)
    return header + b"\x00" if api_version >= FLEXIBLE_SINCE[api_key] else header


def has_tagged_response_header(api_key: int, version: int) -> bool:
    """Whether the answer's header ends with a tagged section (header version 1)."""
    return api_key != ApiKey.API_VERSIONS and version >= FLEXIBLE_SINCE[api_key]


def read_response_header(api_key: int, version: int, frame: memoryview) -> tuple[int, int]:
    """Correlation id of a response frame (without its size), and where the body starts."""
    try:
        correlation_id: int = _INT32.unpack_from(frame, 0)[0]
        pos = skip_tags(frame, 4) if has_tagged_response_header(api_key, version) else 4
    except MALFORMED as error:
        raise DecodeError(f"bad response header: {error}") from error
    return correlation_id, pos
