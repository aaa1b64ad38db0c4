"""Fetch, versions 4 to 18: the hand-written codec, gathered from its parts.

- :mod:`moldau.wire.fetch_layout`: types, and what changed with the versions
- :mod:`moldau.wire.fetch_request`: requests, both directions
- :mod:`moldau.wire.fetch_response`: responses, both directions
"""

from __future__ import annotations

from moldau.wire.fetch_layout import (
    NEWEST,
    OLDEST,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    Records,
)
from moldau.wire.fetch_request import decode_fetch_request, encode_fetch_request
from moldau.wire.fetch_response import (
    FetchResponseWriter,
    decode_fetch_response,
    encode_fetch_response,
    fetch_response_head,
)

__all__ = (
    "NEWEST",
    "OLDEST",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchResponseWriter",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "ForgottenTopic",
    "Records",
    "decode_fetch_request",
    "decode_fetch_response",
    "encode_fetch_request",
    "encode_fetch_response",
    "fetch_response_head",
)
