"""Every API that is served, in every version: answered without an error, and readable by kio."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.support.in_process import InProcessBroker
from tests.support.kafka_instead import KafkaInstead
from tests.support.wire import ConnectionClosedError, WireClient, one_batch, values_of

from moldau.errors import ErrorCode
from moldau.wire.api import ADVERTISED, SERVED, ApiKey, VersionRange
from moldau.wire.headers import encode_request_header
from moldau.wire.messages import decode_response

TOPIC, BROKER = 2, 4
TIMEOUT_MS = 60_000


def requests(version: int) -> dict[ApiKey, dict[str, Any]]:
    """One request per API that a broker with a topic "t" can answer without an error."""
    return {
        ApiKey.LIST_OFFSETS: {
            "replica_id": -1,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        ApiKey.METADATA: {"topics": [{"name": "t"}], "allow_auto_topic_creation": True},
        ApiKey.FIND_COORDINATOR: {"key_type": 0, "coordinator_keys": ["group"]},
        ApiKey.API_VERSIONS: {"client_software_name": "tests", "client_software_version": "1"},
        ApiKey.CREATE_TOPICS: {
            "topics": [{"name": f"new-{version}", "num_partitions": 1, "replication_factor": 1}],
            "timeout": TIMEOUT_MS,
        },
        ApiKey.DELETE_TOPICS: {"topics": [{"name": f"old-{version}"}], "timeout": TIMEOUT_MS},
        ApiKey.DELETE_RECORDS: {
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout": TIMEOUT_MS,
        },
        ApiKey.INIT_PRODUCER_ID: {"transaction_timeout": TIMEOUT_MS},
        ApiKey.WRITE_TXN_MARKERS: {"markers": []},
        ApiKey.LIST_TRANSACTIONS: {},
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {
            "replica_id": -1,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [{"partition": 0, "current_leader_epoch": 0, "leader_epoch": 0}],
                }
            ],
        },
        ApiKey.DESCRIBE_CONFIGS: {
            "resources": [
                {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None},
                {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None},
            ],
            "include_synonyms": True,
            "include_documentation": True,
        },
        ApiKey.ALTER_CONFIGS: {
            "resources": [
                {
                    "resource_type": TOPIC,
                    "resource_name": "t",
                    "configs": [{"name": "retention.ms", "value": "1000"}],
                }
            ]
        },
        # Moves, in both versions: tests/cluster/test_log_dirs.py
        ApiKey.ALTER_REPLICA_LOG_DIRS: {"dirs": []},
        ApiKey.DESCRIBE_LOG_DIRS: {"topics": None},
        ApiKey.CREATE_PARTITIONS: {
            "topics": [{"name": f"old-{version}", "count": 3, "assignments": None}],
            "timeout": TIMEOUT_MS,
        },
        ApiKey.ELECT_LEADERS: {"topic_partitions": None},
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
            "timeout": TIMEOUT_MS,
        },
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": None, "timeout": TIMEOUT_MS},
        ApiKey.DESCRIBE_CLIENT_QUOTAS: {"components": [], "strict": False},
        ApiKey.ALTER_CLIENT_QUOTAS: {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "u"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1024.0, "remove": False}],
                }
            ],
            "validate_only": False,
        },
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": None},
        ApiKey.UPDATE_FEATURES: {"feature_updates": [], "timeout": TIMEOUT_MS},
        ApiKey.INCREMENTAL_ALTER_CONFIGS: {
            "resources": [
                {
                    "resource_type": TOPIC,
                    "resource_name": "t",
                    "configs": [
                        {"name": "retention.ms", "config_operation": 0, "value": "1000"},
                    ],
                }
            ]
        },
        ApiKey.DESCRIBE_CLUSTER: {"endpoint_type": 1},
        ApiKey.DESCRIBE_PRODUCERS: {"topics": [{"name": "t", "partition_indexes": [0]}]},
        ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": [TOPIC]},
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: {
            "topics": [{"name": "t"}],
            "response_partition_limit": 10,
        },
    }


# These need a member, an offset, a history: test_groups_versions.py
OF_GROUPS = {
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
}
# Refused by a broker that is alone, without an authorizer: unit/broker/handlers/test_cluster.py
REFUSED = {
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.UNREGISTER_BROKER,
}
OF_TRANSACTIONS = {
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_TRANSACTIONS,
}
ELSEWHERE = {ApiKey.PRODUCE, ApiKey.FETCH} | OF_GROUPS | OF_TRANSACTIONS | REFUSED
ALL_VERSIONS = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api, served in SERVED.items()
    if api not in ELSEWHERE
    for version in range(served.oldest, served.newest + 1)
]


def error_codes(message: Any) -> set[int]:
    """Every error code anywhere in a message."""
    found: set[int] = set()
    if isinstance(message, tuple):
        for item in message:
            found |= error_codes(item)
    elif hasattr(message, "__dataclass_fields__"):
        for name in message.__dataclass_fields__:
            value = getattr(message, name)
            if name == "error_code":
                found.add(int(value))
            else:
                found |= error_codes(value)
    return found


def test_there_is_a_request_for_each_api() -> None:
    assert requests(0).keys() | ELSEWHERE == SERVED.keys()


@pytest.mark.parametrize(("api", "version"), ALL_VERSIONS)
async def test_each_version_is_answered_without_an_error(
    broker: InProcessBroker, client: WireClient, api: ApiKey, version: int
) -> None:
    if api == ApiKey.FIND_COORDINATOR and isinstance(broker, KafkaInstead):
        pytest.skip("Kafka has groups")
    await client.create_topic("t")
    await client.create_topic(f"old-{version}")
    await client.produce("t", one_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0))
    answer = await client.call(api, version, **requests(version)[api])
    assert error_codes(answer) <= {0}


@pytest.mark.parametrize("version", range(3, 14))
async def test_each_version_of_produce_appends(client: WireClient, version: int) -> None:
    topic_id = await client.create_topic("t")
    result = await client.produce(
        topic_id if version >= 13 else "t", one_batch(b"v"), version=version
    )
    assert (result.error_code, result.base_offset) == (0, 0)
    assert result.log_start_offset == (0 if version >= 5 else -1)
    assert result.log_append_time_ms == -1
    assert values_of(await client.fetch("t")) == [b"v"]


@pytest.mark.parametrize("version", range(4, 19))
async def test_each_version_of_fetch_reads(client: WireClient, version: int) -> None:
    topic_id = await client.create_topic("t")
    await client.produce("t", one_batch(b"v", b"w"))
    fetched = await client.fetch(topic_id if version >= 13 else "t", version=version)
    assert (fetched.error_code, fetched.high_watermark) == (0, 2)
    assert values_of(fetched) == [b"v", b"w"]


# ApiVersions and what is not served --------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_advertises_what_is_served(
    broker: InProcessBroker, client: WireClient, version: int
) -> None:
    answer = await client.call(
        ApiKey.API_VERSIONS, version, client_software_name="tests", client_software_version="1.0"
    )
    told = {k.api_key: VersionRange(k.min_version, k.max_version) for k in answer.api_keys}
    # With --target=kafka: the same ranges, and APIs that are not served here.
    assert {api: told.get(api) for api in ADVERTISED} == ADVERTISED
    if not isinstance(broker, KafkaInstead):
        assert told.keys() == ADVERTISED.keys()


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    client: WireClient, version: int
) -> None:
    # A version from the future: whatever is in its body, nobody here can read it.
    frame = encode_request_header(ApiKey.API_VERSIONS, version, 77, "tests") + b"\xff\xfe garbage"
    client.write(struct.pack(">i", len(frame)) + frame)
    correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, await client.read_frame())
    assert correlation_id == 77
    assert answer.error_code is ErrorCode.UNSUPPORTED_VERSION
    (own,) = answer.api_keys
    assert (own.api_key, own.min_version, own.max_version) == (ApiKey.API_VERSIONS, 0, 4)
    # The connection goes on, so that the client can ask again.
    assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0


@pytest.mark.parametrize("name", ["", "no spaces", "-dash", "dot.", "ünicode"])
async def test_a_client_software_name_that_is_none_is_refused(
    client: WireClient, name: str
) -> None:
    answer = await client.call(
        ApiKey.API_VERSIONS, 4, client_software_name=name, client_software_version="1"
    )
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert answer.api_keys == ()


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.METADATA, SERVED[ApiKey.METADATA].newest + 1),
        (ApiKey.PRODUCE, 0),
        (ApiKey.PRODUCE, 2),
        (ApiKey.FETCH, 3),
        (ApiKey.FETCH, 99),
        (ApiKey.WRITE_TXN_MARKERS, 0),
        (ApiKey.LEADER_AND_ISR, 0),
        (500, 0),
        (-1, 0),
    ],
)
async def test_what_is_not_served_closes_the_connection(
    broker: InProcessBroker, client: WireClient, api_key: int, version: int
) -> None:
    if api_key == ApiKey.JOIN_GROUP and isinstance(broker, KafkaInstead):
        pytest.skip("Kafka has groups")
    frame = struct.pack(">hhih", api_key, version, 1, -1) + bytes(20)
    client.write(struct.pack(">i", len(frame)) + frame)
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()
    other = await broker.connect()
    assert (await other.call(ApiKey.API_VERSIONS, 0)).error_code == 0
