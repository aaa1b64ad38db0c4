"""What one broker says about leaders, replicas, rights, users and features."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient
from tests.unit.broker.harness import lose_controller

from moldau.errors import ErrorCode
from moldau.wire.api import SERVED, ApiKey

NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def versions(api: ApiKey) -> range:
    oldest, newest = SERVED[api]
    return range(oldest, newest + 1)


# Elections


def elections(answer: Any) -> list[tuple[str, dict[int, tuple[int, str]]]]:
    return [
        (
            topic.topic,
            {
                result.partition_id: (result.error_code, result.error_message)
                for result in topic.partition_result
            },
        )
        for topic in answer.replica_election_results
    ]


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
async def test_the_only_broker_leads_already(client: WireClient, version: int) -> None:
    await client.create_topic("t", 2)
    answer = await client.call(
        ApiKey.ELECT_LEADERS,
        version,
        topic_partitions=[{"topic": "t", "partitions": [0, 1]}, {"topic": "u", "partitions": [7]}],
    )
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as u")
    assert answer.error_code is ErrorCode.NONE
    assert elections(answer) == [("t", {0: NOT_NEEDED, 1: NOT_NEEDED}), ("u", {7: unknown})]
    everywhere = await client.call(ApiKey.ELECT_LEADERS, version, topic_partitions=None)
    assert elections(everywhere) == [("t", {})]


async def test_unclean_elections_are_for_partitions_without_a_leader(client: WireClient) -> None:
    await client.create_topic("t")
    partitions = [{"topic": "t", "partitions": [0]}]
    unclean = await client.call(ApiKey.ELECT_LEADERS, election_type=1, topic_partitions=partitions)
    assert elections(unclean) == [("t", {0: NOT_NEEDED})]
    answer = await client.call(ApiKey.ELECT_LEADERS, election_type=7, topic_partitions=partitions)
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    refused = (ErrorCode.INVALID_REQUEST, "Unknown election type 7")
    assert elections(answer) == [("t", {0: refused})]


async def test_without_a_controller_nobody_is_elected_or_moved(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    lose_controller(broker)
    for api, values in (
        (ApiKey.ELECT_LEADERS, {"topic_partitions": None}),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"topics": [{"name": "t", "partitions": []}]}),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None}),
    ):
        answer = await client.call(api, **values)
        assert answer.error_code is ErrorCode.NOT_CONTROLLER


# Reassignments


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS))
async def test_replicas_stay_on_the_only_broker(client: WireClient, version: int) -> None:
    await client.create_topic("t", 3)
    wanted = [
        {"partition_index": 0, "replicas": [1]},
        {"partition_index": 1, "replicas": [2]},
        {"partition_index": 2, "replicas": None},
    ]
    topics = [
        {"name": "t", "partitions": wanted},
        {"name": "u", "partitions": [{"partition_index": 0, "replicas": [1]}]},
        {"name": "t", "partitions": []},
    ]
    answer = await client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=topics)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.responses
    ] == [
        (
            "t",
            [
                (0, ErrorCode.NONE),
                (1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
                (2, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
            ],
        ),
        ("u", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("t", []),
    ]


async def test_nothing_moves(client: WireClient) -> None:
    await client.create_topic("t")
    for topics in (None, [], [{"name": "t", "partition_indexes": [0, 5]}, {"name": "u"}]):
        answer = await client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=topics)
        assert (answer.error_code, answer.topics) == (ErrorCode.NONE, ())


# Rights and users


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_ACLS))
async def test_there_is_no_authorizer(client: WireClient, version: int) -> None:
    described = await client.call(ApiKey.DESCRIBE_ACLS, version)
    assert described.error_code is ErrorCode.SECURITY_DISABLED
    assert described.error_message == "No Authorizer is configured on the broker"
    created = await client.call(ApiKey.CREATE_ACLS, version, creations=[{}, {}])
    deleted = await client.call(ApiKey.DELETE_ACLS, version, filters=[{}, {}])
    for results in (created.results, deleted.filter_results):
        assert [(result.error_code, result.error_message) for result in results] == [
            (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        ] * 2


@pytest.mark.parametrize(
    "api",
    [
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ],
    ids=lambda api: api.name,
)
async def test_nobody_gets_a_token_over_plaintext(client: WireClient, api: ApiKey) -> None:
    for version in versions(api):
        answer = await client.call(api, version)
        assert answer.error_code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_no_user_logs_in_by_scram(client: WireClient) -> None:
    api = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    for users in (None, ()):
        answer = await client.call(api, users=users)
        assert (answer.error_code, answer.results) == (ErrorCode.NONE, ())
    named = await client.call(api, users=[{"name": "a"}, {"name": "b"}, {"name": "a"}])
    assert [(result.user, result.error_code) for result in named.results] == [
        ("a", ErrorCode.DUPLICATE_RESOURCE),
        ("b", ErrorCode.RESOURCE_NOT_FOUND),
    ]


# The cluster


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_FEATURES))
async def test_no_feature_has_levels(client: WireClient, version: int) -> None:
    async def update(**feature: Any) -> tuple[ErrorCode, str]:
        updates = [{"feature": "group.version", **feature}]
        answer = await client.call(ApiKey.UPDATE_FEATURES, version, feature_updates=updates)
        return answer.error_code, answer.error_message.partition("group.version. ")[2]

    refused = ErrorCode.INVALID_UPDATE_VERSION
    unsupported = (refused, "Local controller 1 does not support this feature.")
    assert await update(max_version_level=1) == unsupported
    assert await update(max_version_level=0) == (refused, "Feature group.version not found.")
    negative = (refused, "A feature version cannot be less than 0.")
    assert await update(max_version_level=-1) == negative
    nothing = await client.call(ApiKey.UPDATE_FEATURES, version, feature_updates=[])
    assert nothing.error_code is ErrorCode.NONE
    if version > 0:
        unknown = (refused, "The controller does not support the given upgrade type.")
        assert await update(max_version_level=1, upgrade_type=9) == unknown


async def test_a_registration_ends_with_its_broker(client: WireClient) -> None:
    gone = await client.call(ApiKey.UNREGISTER_BROKER, broker_id=7)
    assert gone.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert gone.error_message == "Broker ID 7 is not currently registered"
    running = await client.call(ApiKey.UNREGISTER_BROKER, broker_id=1)
    assert running.error_code is ErrorCode.INVALID_REQUEST
