"""The answer to ApiVersions, as a broker of Apache Kafka 4.3.1 gives it."""

from __future__ import annotations

import pytest

from moldau.errors import ErrorCode
from moldau.wire.api import ADVERTISED, ApiKey
from moldau.wire.api_versions import encode_api_versions_response, is_valid_software
from moldau.wire.messages import decode_response


@pytest.mark.parametrize("version", range(5))
def test_every_served_api_is_listed_in_the_order_of_keys(version: int) -> None:
    frame = encode_api_versions_response(version, 2**31 - 1)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, response = decode_response(ApiKey.API_VERSIONS, version, frame[4:])
    assert correlation_id == 2**31 - 1
    assert response.error_code is ErrorCode.NONE
    assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [
        (api, *found) for api, found in sorted(ADVERTISED.items())
    ]


@pytest.mark.parametrize("version", [3, 4])
def test_transactions_of_version_2_are_advertised(version: int) -> None:
    frame = encode_api_versions_response(version, 1)
    _, response = decode_response(ApiKey.API_VERSIONS, version, frame[4:])
    (supported,) = response.supported_features
    oldest = 0 if version >= 4 else 1  # what clients before it can read
    assert (supported.name, supported.min_version) == ("transaction.version", oldest)
    assert supported.max_version == 2
    (finalized,) = response.finalized_features
    assert finalized.name == "transaction.version"
    assert (finalized.min_version_level, finalized.max_version_level) == (2, 2)
    assert response.finalized_features_epoch == 0


@pytest.mark.parametrize("version", [-1, 5, 99, 32767])
def test_unknown_version_is_answered_with_the_bytes_that_kafka_sends(version: int) -> None:
    frame = encode_api_versions_response(version, 9)
    assert frame[4:] == bytes.fromhex("00000009 0023 00000001 0012 0000 0004")


def test_invalid_software_is_answered_with_the_bytes_that_kafka_sends() -> None:
    frame = encode_api_versions_response(3, 9, ErrorCode.INVALID_REQUEST)
    assert frame[4:] == bytes.fromhex("00000009 002a 01 00000000 00")


def test_throttle_time_is_told() -> None:
    frame = encode_api_versions_response(1, 1, throttle_ms=250)
    _, response = decode_response(ApiKey.API_VERSIONS, 1, frame[4:])
    assert response.throttle_time.total_seconds() == 0.25


@pytest.mark.parametrize("text", ["librdkafka", "apache-kafka-java", "2.8.0", "a", "A-1.b"])
def test_names_of_real_clients_are_valid(text: str) -> None:
    assert is_valid_software(text)


@pytest.mark.parametrize("text", ["", " ", "-a", "a-", ".", "a b", "a_b", "é", "a\n"])
def test_names_that_kafka_refuses_are_invalid(text: str) -> None:
    assert not is_valid_software(text)
