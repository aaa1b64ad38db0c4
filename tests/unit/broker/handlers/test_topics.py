"""Topics and the cluster: what handlers make of the controller's answers, and of its absence."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient
from tests.unit.broker.harness import lose_controller

from moldau.controller import NewTopic
from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey

UNKNOWN_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


async def create(client: WireClient, *topics: dict[str, Any], **how: Any) -> list[Any]:
    listed = [{"num_partitions": 1, "replication_factor": 1, **topic} for topic in topics]
    answer = await client.call(ApiKey.CREATE_TOPICS, topics=listed, timeout=60_000, **how)
    return list(answer.topics)


async def metadata(client: WireClient, **fields: Any) -> Any:
    return await client.call(ApiKey.METADATA, **fields)


# CreateTopics ------------------------------------------------------------------------------------


async def test_each_topic_is_created_or_refused_alone(client: WireClient) -> None:
    made, refused = await create(
        client,
        {"name": "t", "num_partitions": 2, "configs": [{"name": "retention.ms", "value": "5"}]},
        {"name": "no spaces"},
    )
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 1)
    assert made.topic_id is not None
    own = {config.name: config.value for config in made.configs if config.config_source == 1}
    assert own == {"retention.ms": "5"}
    assert refused.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (refused.topic_id, refused.configs) == (None, ())


async def test_assignments_reach_the_controller(client: WireClient) -> None:
    by_hand = {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": n, "broker_ids": [1]} for n in range(3)],
    }
    (made,) = await create(client, {"name": "t", **by_hand})
    assert (made.error_code, made.num_partitions) == (0, 3)
    twice = by_hand | {"assignments": [{"partition_index": 0, "broker_ids": [1]}] * 2}
    (refused,) = await create(client, {"name": "u", **twice})
    assert refused.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def test_validating_creates_nothing(broker: MemoryBroker, client: WireClient) -> None:
    (checked,) = await create(client, {"name": "t"}, validate_only=True)
    assert checked.error_code == 0
    assert broker.parts.metadata.topics == {}


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
async def test_without_a_controller_every_topic_says_so(
    broker: MemoryBroker, client: WireClient, code: ErrorCode
) -> None:
    await client.create_topic("t")
    lose_controller(broker, code)
    topics = await create(client, {"name": "a"}, {"name": "b"})
    assert [(topic.name, topic.error_code) for topic in topics] == [("a", code), ("b", code)]
    assert topics[0].error_message == "for this test"
    grown = await client.call(
        ApiKey.CREATE_PARTITIONS, topics=[{"name": "t", "count": 2}], timeout=60_000
    )
    assert [result.error_code for result in grown.results] == [code]
    deleted = await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    assert [topic.error_code for topic in deleted.responses] == [code]


# DeleteTopics and CreatePartitions ---------------------------------------------------------------


async def test_topics_are_deleted_by_name_and_by_id(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("by-name")
    topic_id = await client.create_topic("by-id")
    topics = [
        {"name": "by-name"},
        {"name": None, "topic_id": topic_id},
        {"name": "nope"},
        {"name": None, "topic_id": UNKNOWN_ID},
        {"name": None, "topic_id": None},
        {"name": "both", "topic_id": topic_id},
    ]
    answer = await client.call(ApiKey.DELETE_TOPICS, topics=topics, timeout=60_000)
    codes = {(topic.name, topic.topic_id): topic.error_code for topic in answer.responses}
    assert codes[None, None] is ErrorCode.INVALID_REQUEST
    assert codes["both", topic_id] is ErrorCode.INVALID_REQUEST
    assert codes["nope", None] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes[None, UNKNOWN_ID] is ErrorCode.UNKNOWN_TOPIC_ID
    assert codes["by-id", topic_id] == 0
    assert broker.parts.metadata.topics == {}


@pytest.mark.parametrize("broker", [{"delete.topic.enable": "false"}], indirect=True)
@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
async def test_deletion_that_is_disabled_is_refused_in_a_code_that_the_version_knows(
    client: WireClient, version: int, code: ErrorCode
) -> None:
    await client.create_topic("t")
    topics = [{"name": "t"}]
    answer = await client.call(ApiKey.DELETE_TOPICS, version, topics=topics, timeout=60_000)
    assert [topic.error_code for topic in answer.responses] == [code]


async def test_partitions_are_added_and_never_taken_away(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t", 2)
    topics = [
        {"name": "t", "count": 4, "assignments": [{"broker_ids": [1]}, {"broker_ids": [1]}]},
        {"name": "nope", "count": 3, "assignments": None},
    ]
    answer = await client.call(ApiKey.CREATE_PARTITIONS, topics=topics, timeout=60_000)
    codes = {result.name: result.error_code for result in answer.results}
    assert codes == {"t": 0, "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.parts.metadata.partition_count("t") == 4
    fewer = [{"name": "t", "count": 3, "assignments": None}]
    answer = await client.call(ApiKey.CREATE_PARTITIONS, topics=fewer, timeout=60_000)
    assert answer.results[0].error_code is ErrorCode.INVALID_PARTITIONS


# Metadata ----------------------------------------------------------------------------------------


async def test_topics_are_found_by_name_and_by_id(client: WireClient) -> None:
    topic_id = await client.create_topic("t", 2)
    asked = [
        {"name": "t"},
        {"topic_id": topic_id, "name": None},
        {"topic_id": UNKNOWN_ID, "name": None},
        {"name": "no spaces"},
    ]
    answer = await metadata(client, topics=asked)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("t", 0),
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("no spaces", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    partitions = answer.topics[0].partitions
    assert [(p.partition_index, p.leader_id, p.isr_nodes) for p in partitions] == [
        (0, 1, (1,)),
        (1, 1, (1,)),
    ]
    assert [(node.node_id, node.host, node.port) for node in answer.brokers] == [
        (1, "memory", 9092)
    ]
    assert answer.controller_id == 1


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("by_id", [UNKNOWN_ID, None])
async def test_versions_that_must_name_topics_in_their_answers_take_no_ids(
    client: WireClient, version: int, by_id: UUID | None
) -> None:
    await client.create_topic("t")
    asked = [{"name": "t"}, {"name": None, "topic_id": by_id}]
    answer = await client.call(ApiKey.METADATA, version, topics=asked)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("", ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize(("version", "topics"), [(0, []), (12, None)])
async def test_no_list_means_all_topics(
    client: WireClient, version: int, topics: list[Any] | None
) -> None:
    for name in ("b", "a"):
        await client.create_topic(name)
    answer = await client.call(ApiKey.METADATA, version, topics=topics)
    assert [topic.name for topic in answer.topics] == ["b", "a"]


async def test_a_missing_topic_is_created_if_both_sides_allow_it(
    broker: MemoryBroker, client: WireClient
) -> None:
    refused = await metadata(client, topics=[{"name": "t"}], allow_auto_topic_creation=False)
    assert refused.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    made = await metadata(
        client, topics=[{"name": "t"}, {"name": "no spaces"}], allow_auto_topic_creation=True
    )
    assert [topic.error_code for topic in made.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert len(made.topics[0].partitions) == 1
    internal = await metadata(
        client, topics=[{"name": "__consumer_offsets"}], allow_auto_topic_creation=True
    )
    assert len(internal.topics[0].partitions) == 50
    assert internal.topics[0].is_internal
    overrides = broker.parts.configs.topic_overrides("__consumer_offsets")
    assert overrides["cleanup.policy"] == "compact"


@pytest.mark.parametrize("broker", [{"auto.create.topics.enable": "false"}], indirect=True)
async def test_a_broker_that_creates_nothing_by_itself(client: WireClient) -> None:
    answer = await metadata(client, topics=[{"name": "t"}], allow_auto_topic_creation=True)
    assert answer.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_without_a_controller_what_exists_is_described_and_the_rest_is_unknown(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    lose_controller(broker)
    answer = await metadata(
        client,
        topics=[{"name": "t"}, {"name": "u"}, {"name": "__consumer_offsets"}],
        allow_auto_topic_creation=True,
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [topic.error_code for topic in answer.topics] == [0, unknown, unknown]


async def test_a_topic_without_a_leader_says_so(broker: MemoryBroker, client: WireClient) -> None:
    await client.create_topic("t")
    broker.parts.metadata.set_brokers([])
    answer = await metadata(client, topics=[{"name": "t"}])
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == (1,)


# DescribeTopicPartitions -------------------------------------------------------------------------


async def pages(client: WireClient, limit: int, **fields: Any) -> list[list[tuple[str, int]]]:
    """The partitions of each page."""
    result = []
    cursor = None
    while True:
        answer = await client.call(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            response_partition_limit=limit,
            cursor=cursor,
            **fields,
        )
        result.append(
            [(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions]
        )
        if answer.next_cursor is None:
            return result
        cursor = answer.next_cursor


async def test_many_partitions_come_page_by_page(client: WireClient) -> None:
    for name, partitions in (("b", 3), ("a", 2)):
        await client.create_topic(name, partitions)
    everything = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]
    assert await pages(client, 100, topics=[]) == [everything]
    assert await pages(client, 2, topics=[]) == [everything[:2], everything[2:4], everything[4:]]
    assert await pages(client, 2, topics=[{"name": "b"}]) == [everything[2:4], everything[4:]]


async def test_a_cursor_that_no_page_ended_with_is_refused(client: WireClient) -> None:
    await client.create_topic("a")
    for cursor in (
        {"topic_name": "b", "partition_index": 0},
        {"topic_name": "a", "partition_index": -1},
    ):
        answer = await client.call(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            topics=[{"name": "a"}],
            response_partition_limit=5,
            cursor=cursor,
        )
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]


# DescribeCluster ---------------------------------------------------------------------------------


async def test_the_cluster_is_described(broker: MemoryBroker, client: WireClient) -> None:
    answer = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)
    assert (answer.error_code, answer.cluster_id) == (0, broker.parts.cluster_id)
    assert [node.broker_id for node in answer.brokers] == [1]
    assert answer.cluster_authorized_operations == -(2**31)
    asked = await client.call(
        ApiKey.DESCRIBE_CLUSTER, endpoint_type=1, include_cluster_authorized_operations=True
    )
    assert asked.cluster_authorized_operations > 0
    controllers = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=2)
    assert controllers.error_code is ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert (controllers.cluster_id, controllers.brokers) == ("", ())


async def test_the_controller_answers_through_the_port(broker: MemoryBroker) -> None:
    (result,) = await broker.parts.controller.create_topics([NewTopic(name="t")])
    assert (result.error, result.num_partitions) == (ErrorCode.NONE, 1)
