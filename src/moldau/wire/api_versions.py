"""The answer to ApiVersions, the first request on every connection: made once per version.

A version that we do not know is answered in version 0 with UNSUPPORTED_VERSION and the range of
ApiVersions itself, so that the client can ask again in one it shares with us (KIP-511).

One feature is advertised (version 3 adds them): ``transaction.version``, by which producers know
that they need not announce partitions (KIP-890). Kafka's others announce what its KRaft quorum
agreed on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from moldau.errors import ErrorCode
from moldau.wire.api import ADVERTISED, SERVED, ApiKey, VersionRange
from moldau.wire.make import make
from moldau.wire.messages import encode_response, newest_class
from moldau.wire.schema import fields_of

_VERSIONS: Final = SERVED[ApiKey.API_VERSIONS]
FEATURES: Final = {"transaction.version": VersionRange(0, 2)}
"""What is supported, each finalized at its newest level."""
_FINALIZED_EPOCH: Final = 0
"""It does not change while the cluster runs."""
_FIRST_WITH_LEVEL_0: Final = 4
"""Clients before it cannot read of a feature whose oldest level is 0."""
_INT32: Final = Struct(">i")
_CORRELATION_ID_AT: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def is_valid_software(text: str) -> bool:
    """Whether a client's software name or version (sent from version 3 on) is one.

    Kafka answers anything else with INVALID_REQUEST: these end up as names of metrics.
    """
    return _SOFTWARE.fullmatch(text) is not None


def encode_api_versions_response(
    version: int,
    correlation_id: int,
    error_code: ErrorCode = ErrorCode.NONE,
    throttle_ms: int = 0,
) -> bytes:
    """A whole response frame to a request of ``version``, known or not."""
    if version not in _VERSIONS:
        version, error_code = _VERSIONS.oldest, ErrorCode.UNSUPPORTED_VERSION
    frame = bytearray(_template(version, error_code, throttle_ms))
    _INT32.pack_into(frame, _CORRELATION_ID_AT, correlation_id)
    return bytes(frame)


@lru_cache(maxsize=256)
def _template(version: int, error_code: ErrorCode, throttle_ms: int) -> bytes:
    ranges: dict[ApiKey, VersionRange] = {}
    if error_code == ErrorCode.NONE:
        ranges = ADVERTISED
    elif error_code == ErrorCode.UNSUPPORTED_VERSION:
        ranges = {ApiKey.API_VERSIONS: _VERSIONS}
    response = newest_class(ApiKey.API_VERSIONS, "response")
    entities = {spec.name: spec.entity for spec in fields_of(response)}
    api_version = entities["api_keys"]
    assert api_version is not None
    keys: tuple[Any, ...] = tuple(
        make(api_version, api_key=api, min_version=versions.oldest, max_version=versions.newest)
        for api, versions in sorted(ranges.items())
    )
    features = _features(entities, version) if error_code == ErrorCode.NONE else {}
    message: Any = make(response, error_code=error_code, api_keys=keys, **features)
    return encode_response(ApiKey.API_VERSIONS, version, 0, message, throttle_ms)


def _features(entities: dict[str, Any], version: int) -> dict[str, Any]:
    oldest = 0 if version >= _FIRST_WITH_LEVEL_0 else 1
    return {
        "supported_features": tuple(
            make(
                entities["supported_features"],
                name=name,
                min_version=max(levels.oldest, oldest),
                max_version=levels.newest,
            )
            for name, levels in FEATURES.items()
        ),
        "finalized_features_epoch": _FINALIZED_EPOCH,
        "finalized_features": tuple(
            make(
                entities["finalized_features"],
                name=name,
                max_version_level=levels.newest,
                min_version_level=levels.newest,
            )
            for name, levels in FEATURES.items()
        ),
    }
