"""The table of APIs against kio's schema, Kafka 4.3.1's ranges and the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from moldau.wire.api import (
    ADVERTISED,
    FLEXIBLE_SINCE,
    KNOWN,
    NEVER_FLEXIBLE,
    SERVED,
    ApiKey,
    VersionRange,
    is_flexible,
    is_served,
    newest_version,
)
from moldau.wire.headers import has_tagged_response_header
from moldau.wire.schema import message_class

# What a broker of Apache Kafka 4.3.1 answers to ApiVersions, for the APIs that we serve.
KAFKA_4_3_1 = {
    "PRODUCE": (0, 13),
    "FETCH": (4, 18),
    "LIST_OFFSETS": (1, 11),
    "METADATA": (0, 13),
    "OFFSET_COMMIT": (2, 10),
    "OFFSET_FETCH": (1, 10),
    "FIND_COORDINATOR": (0, 6),
    "JOIN_GROUP": (0, 9),
    "HEARTBEAT": (0, 4),
    "LEAVE_GROUP": (0, 5),
    "SYNC_GROUP": (0, 5),
    "DESCRIBE_GROUPS": (0, 6),
    "LIST_GROUPS": (0, 5),
    "API_VERSIONS": (0, 4),
    "CREATE_TOPICS": (2, 7),
    "DELETE_TOPICS": (1, 6),
    "DELETE_RECORDS": (0, 2),
    "INIT_PRODUCER_ID": (0, 5),
    "OFFSET_FOR_LEADER_EPOCH": (2, 4),
    "DESCRIBE_ACLS": (1, 3),
    "CREATE_ACLS": (1, 3),
    "DELETE_ACLS": (1, 3),
    "DESCRIBE_CONFIGS": (1, 4),
    "ALTER_CONFIGS": (0, 2),
    "ALTER_REPLICA_LOG_DIRS": (1, 2),
    "DESCRIBE_LOG_DIRS": (1, 5),
    "CREATE_PARTITIONS": (0, 3),
    "ADD_PARTITIONS_TO_TXN": (0, 5),
    "ADD_OFFSETS_TO_TXN": (0, 4),
    "END_TXN": (0, 5),
    "WRITE_TXN_MARKERS": (1, 2),
    "TXN_OFFSET_COMMIT": (0, 5),
    "DESCRIBE_TRANSACTIONS": (0, 0),
    "LIST_TRANSACTIONS": (0, 2),
    "CREATE_DELEGATION_TOKEN": (1, 3),
    "RENEW_DELEGATION_TOKEN": (1, 2),
    "EXPIRE_DELEGATION_TOKEN": (1, 2),
    "DESCRIBE_DELEGATION_TOKEN": (1, 3),
    "DELETE_GROUPS": (0, 2),
    "ELECT_LEADERS": (0, 2),
    "INCREMENTAL_ALTER_CONFIGS": (0, 1),
    "ALTER_PARTITION_REASSIGNMENTS": (0, 1),
    "LIST_PARTITION_REASSIGNMENTS": (0, 0),
    "OFFSET_DELETE": (0, 0),
    "DESCRIBE_CLIENT_QUOTAS": (0, 1),
    "ALTER_CLIENT_QUOTAS": (0, 1),
    "DESCRIBE_USER_SCRAM_CREDENTIALS": (0, 0),
    "UPDATE_FEATURES": (0, 2),
    "DESCRIBE_CLUSTER": (0, 2),
    "DESCRIBE_PRODUCERS": (0, 0),
    "UNREGISTER_BROKER": (0, 0),
    "CONSUMER_GROUP_HEARTBEAT": (0, 1),
    "CONSUMER_GROUP_DESCRIBE": (0, 1),
    "LIST_CONFIG_RESOURCES": (0, 1),
    "DESCRIBE_TOPIC_PARTITIONS": (0, 0),
}
EVERY_VERSION = [
    (api, version)
    for api, found in KNOWN.items()
    for version in range(found.oldest, found.newest + 1)
]
PROTOCOL_PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"


def test_advertised_ranges_are_those_of_kafka() -> None:
    assert {api.name: tuple(found) for api, found in ADVERTISED.items()} == KAFKA_4_3_1


def test_produce_is_advertised_from_0_but_served_from_3() -> None:
    assert ADVERTISED[ApiKey.PRODUCE] == VersionRange(0, 13)
    assert SERVED[ApiKey.PRODUCE] == VersionRange(3, 13)
    assert not is_served(ApiKey.PRODUCE, 2)
    assert is_served(ApiKey.PRODUCE, 3)


def test_keys_are_kios_and_dense() -> None:
    assert sorted(ApiKey) == list(range(len(ApiKey)))
    names = {api: name for api, name in api_key_map.items() if ApiKey(api) in KNOWN}
    assert {api: api.name.lower() for api in KNOWN} == names


def test_ranges_are_kios() -> None:
    shortened = {
        ApiKey.INIT_PRODUCER_ID: 5,  # version 6 is not stable yet
    }
    for api, known in KNOWN.items():
        found = schema_name_map[api.name.lower()]
        assert known == VersionRange(min(found), shortened.get(api, max(found))), api
        assert newest_version(api) == known.newest


def test_flexible_versions_and_headers_are_kios() -> None:
    for api, version in EVERY_VERSION:
        request = message_class(api, version, "request")
        response = message_class(api, version, "response")
        assert is_flexible(api, version) == request.__flexible__  # type: ignore[attr-defined]
        tagged = request.__header_schema__.__version__ == 2  # type: ignore[attr-defined]
        assert is_flexible(api, version) == tagged
        tagged = response.__header_schema__.__version__ == 1  # type: ignore[attr-defined]
        assert has_tagged_response_header(api, version) == tagged


def test_apis_without_versions_are_never_flexible() -> None:
    assert FLEXIBLE_SINCE[ApiKey.LEADER_AND_ISR] == NEVER_FLEXIBLE
    assert FLEXIBLE_SINCE[ApiKey.SASL_HANDSHAKE] == NEVER_FLEXIBLE


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (-1, 0),
        (93, 0),
        (1000, 0),
        (ApiKey.LEADER_AND_ISR, 0),
        (ApiKey.VOTE, 0),
        (ApiKey.METADATA, -1),
        (ApiKey.METADATA, 14),
        (ApiKey.FETCH, 3),
        (ApiKey.FETCH, 19),
    ],
)
def test_what_is_not_served(api_key: int, version: int) -> None:
    assert not is_served(api_key, version)


def test_every_version_in_the_table_is_served() -> None:
    for api, found in SERVED.items():
        assert all(is_served(api, version) for version in range(found.oldest, found.newest + 1))
        assert not is_served(api, found.oldest - 1)
        assert not is_served(api, found.newest + 1)


def test_range_reads_well() -> None:
    assert str(VersionRange(0, 3)) == "0–3"
    assert str(VersionRange(2, 2)) == "2"
    assert 3 in VersionRange(0, 3)
    assert 4 not in VersionRange(0, 3)
    text: object = "3"
    assert text not in VersionRange(0, 3)


def test_documentation_lists_what_is_served() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PROTOCOL_PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    expected = []
    for api, found in sorted(SERVED.items()):
        name = "".join(word.capitalize() for word in api.name.split("_"))
        flexible = FLEXIBLE_SINCE[api]
        since = "–" if flexible == NEVER_FLEXIBLE else str(flexible)
        expected.append([str(int(api)), name, str(found), since])
    assert [row[:4] for row in rows] == expected


def test_kio_has_requests_and_responses_of_everything_known() -> None:
    for api, found in KNOWN.items():
        for version in range(found.oldest, found.newest + 1):
            directions = schema_name_map[api.name.lower()][version]
            assert {EntityType.request, EntityType.response} <= set(directions)
