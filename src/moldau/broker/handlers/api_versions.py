"""ApiVersions (key 18, versions 0-4): which APIs and versions are served.

Behaviour: the first request of a connection. From version 3 on the client names its software, and a
name that is none is refused with INVALID_REQUEST. A version from the future is answered as in
version 0 with UNSUPPORTED_VERSION (KIP-511, see ``broker/router.py``).
Known deviations: of Kafka's features only ``transaction.version`` is advertised, finalized at 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kio.schema.api_versions.v4.request import ApiVersionsRequest

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Part
from moldau.wire.api import ApiKey
from moldau.wire.api_versions import encode_api_versions_response, is_valid_software
from moldau.wire.messages import decode_request

FIRST_VERSION_WITH_SOFTWARE = 3

decode = partial(decode_request, ApiKey.API_VERSIONS)


def handle(request: Request[ApiVersionsRequest]) -> ErrorCode:
    software = (request.body.client_software_name, request.body.client_software_version)
    if request.version >= FIRST_VERSION_WITH_SOFTWARE and not all(map(is_valid_software, software)):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def error_answer(_request: Request[ApiVersionsRequest], error: KafkaError) -> ErrorCode:
    return error.code


def encode(version: int, correlation_id: int, code: ErrorCode, throttle_ms: int) -> Sequence[Part]:
    """All but the code lies ready."""
    return (encode_api_versions_response(version, correlation_id, code, throttle_ms),)
