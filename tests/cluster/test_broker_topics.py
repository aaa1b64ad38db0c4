"""Topics over the wire: made, found, grown, deleted, created by asking for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.in_process import InProcessBroker, eventually
from tests.support.wire import WireClient, one_batch, values_of

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

UNKNOWN_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


async def create(client: WireClient, *topics: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Answers by topic name."""
    listed = [{"num_partitions": 1, "replication_factor": 1, **topic} for topic in topics]
    answer = await client.call(ApiKey.CREATE_TOPICS, topics=listed, timeout=60_000, **how)
    return {topic.name: topic for topic in answer.topics}


async def metadata(client: WireClient, *names: str, **how: Any) -> dict[str, Any]:
    asked = {"topics": [{"name": name} for name in names] if names else None}
    answer = await client.call(ApiKey.METADATA, **(asked | how))
    return {topic.name: topic for topic in answer.topics}


async def delete(client: WireClient, *topics: dict[str, Any], version: int = 6) -> list[ErrorCode]:
    answer = await client.call(ApiKey.DELETE_TOPICS, version, topics=list(topics), timeout=60_000)
    return [error_from(one.error_code) for one in answer.responses]


# Creating ----------------------------------------------------------------------------------------


async def test_a_created_topic_can_be_used_as_soon_as_it_is_answered(client: WireClient) -> None:
    answer = (await create(client, {"name": "t", "num_partitions": 3}))["t"]
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    assert (await client.produce("t", one_batch(b"v"), partition=2)).error_code == 0
    topic = (await metadata(client, "t"))["t"]
    assert (topic.error_code, topic.topic_id) == (0, answer.topic_id)
    assert [(p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 1), (1, 1), (2, 1)]
    assert [(p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [((1,), (1,))] * 3


async def test_the_answer_carries_the_settings_in_force(client: WireClient) -> None:
    configs = [{"name": "retention.ms", "value": "5"}]
    answer = (await create(client, {"name": "t", "configs": configs}))["t"]
    settings = {config.name: config.value for config in answer.configs}
    assert settings["retention.ms"] == "5"
    assert settings["segment.bytes"] == "1073741824"
    own = {config.name for config in answer.configs if config.config_source == 1}
    assert own == {"retention.ms"}


async def test_validate_only_answers_the_same_and_changes_nothing(client: WireClient) -> None:
    wanted = {"name": "t", "num_partitions": 2}
    answer = (await create(client, wanted, validate_only=True))["t"]
    assert (answer.error_code, answer.num_partitions) == (0, 2)
    assert await metadata(client) == {}
    refused = {"name": "t", "configs": [{"name": "retention.ms", "value": "soon"}]}
    answer = (await create(client, refused, validate_only=True))["t"]
    assert answer.error_code is ErrorCode.INVALID_CONFIG


async def test_partitions_can_be_assigned_by_hand(client: WireClient) -> None:
    by_hand = {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": 0, "broker_ids": [1]},
            {"partition_index": 1, "broker_ids": [1]},
        ],
    }
    assert (await create(client, {"name": "t", **by_hand}))["t"].error_code == 0
    assert len((await metadata(client, "t"))["t"].partitions) == 2


async def test_minus_one_means_the_brokers_defaults(client: WireClient) -> None:
    answer = await create(client, {"name": "t", "num_partitions": -1, "replication_factor": -1})
    assert (answer["t"].num_partitions, answer["t"].replication_factor) == (1, 1)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "no spaces"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "already.there"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"name": "already_there"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "t", "num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "t", "num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "t", "replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "t", "replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            {"name": "t", "configs": [{"name": "no.such.setting", "value": "1"}]},
            ErrorCode.INVALID_CONFIG,
        ),
        (
            {"name": "t", "configs": [{"name": "cleanup.policy", "value": "shred"}]},
            ErrorCode.INVALID_CONFIG,
        ),
        (
            {
                "name": "t",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [99]}],
            },
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            {"name": "t", "assignments": [{"partition_index": 0, "broker_ids": [1]}]},
            ErrorCode.INVALID_REQUEST,
        ),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_topics_that_cannot_be_are_refused_and_the_others_made(
    client: WireClient, topic: dict[str, Any], code: ErrorCode
) -> None:
    await create(client, {"name": "already.there"})
    answers = await create(client, topic, {"name": "good"})
    assert answers[topic["name"]].error_code is code
    assert answers[topic["name"]].error_message
    assert answers["good"].error_code == 0
    assert set(await metadata(client)) == {"already.there", "good"}


async def test_a_name_twice_in_one_request_is_refused(client: WireClient) -> None:
    answer = await client.call(
        ApiKey.CREATE_TOPICS,
        topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}] * 2,
        timeout=60_000,
    )
    assert {one.error_code for one in answer.topics} == {ErrorCode.INVALID_REQUEST}
    assert await metadata(client) == {}


async def test_two_clients_creating_the_same_topic_at_once_make_one(
    broker: InProcessBroker,
) -> None:
    clients = [await broker.connect() for _ in range(5)]
    answers = await asyncio.gather(*(create(client, {"name": "t"}) for client in clients))
    codes = sorted(error_from(answer["t"].error_code).name for answer in answers)
    assert codes == ["NONE"] + ["TOPIC_ALREADY_EXISTS"] * 4


# Asking ------------------------------------------------------------------------------------------


async def test_all_topics_no_topics_and_unknown_topics(client: WireClient) -> None:
    await create(client, {"name": "a"}, {"name": "b"})
    assert set(await metadata(client)) == {"a", "b"}
    assert set(await metadata(client, version=0, topics=[])) == {"a", "b"}
    assert await metadata(client, version=1, topics=[]) == {}
    unknown = await metadata(client, "a", "c", "no spaces", allow_auto_topic_creation=False)
    assert {name: error_from(topic.error_code) for name, topic in unknown.items()} == {
        "a": ErrorCode.NONE,
        "c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "no spaces": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


async def test_topics_can_be_asked_for_by_id(client: WireClient) -> None:
    topic_id = await client.create_topic("t")
    answer = await client.call(
        ApiKey.METADATA, topics=[{"topic_id": topic_id}, {"topic_id": UNKNOWN_ID}]
    )
    known, unknown = sorted(answer.topics, key=lambda topic: topic.error_code)
    assert (known.error_code, known.name, known.topic_id) == (0, "t", topic_id)
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (
        ErrorCode.UNKNOWN_TOPIC_ID,
        None,
        UNKNOWN_ID,
    )


async def test_the_brokers_address_and_the_cluster_are_told(
    broker: InProcessBroker, client: WireClient
) -> None:
    answer = await client.call(ApiKey.METADATA, topics=[])
    ((node_id, host, port),) = [(b.node_id, b.host, b.port) for b in answer.brokers]
    assert (node_id, f"{host}:{port}") == (1, broker.address)
    assert answer.controller_id == 1
    cluster = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)
    assert cluster.cluster_id == answer.cluster_id
    assert [(b.broker_id, b.port) for b in cluster.brokers] == [(1, port)]


async def test_controllers_are_not_told_to_clients(client: WireClient) -> None:
    answer = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=2)
    assert answer.error_code is ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert answer.brokers == ()


async def test_answers_from_the_cache_have_their_own_correlation_ids(client: WireClient) -> None:
    await create(client, {"name": "t"})
    sent = [client.send(ApiKey.METADATA, topics=[{"name": "t"}]) for _ in range(5)]
    answers = [await client.receive(ApiKey.METADATA, one) for one in sent]
    assert all(answer == answers[0] for answer in answers)


async def test_metadata_is_never_out_of_date(client: WireClient) -> None:
    """Cached answers go with every change."""
    for n in range(1, 5):
        await create(client, {"name": f"t{n}"})
        assert set(await metadata(client)) == {f"t{m}" for m in range(1, n + 1)}
    await client.call(
        ApiKey.CREATE_PARTITIONS,
        topics=[{"name": "t1", "count": 4, "assignments": None}],
        timeout=60_000,
    )
    assert len((await metadata(client))["t1"].partitions) == 4
    await delete(client, {"name": "t2"})
    assert set(await metadata(client)) == {"t1", "t3", "t4"}


@pytest.mark.parametrize(
    "broker",
    [
        {
            "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
            "advertised.listeners": "IN://inside.example:1111,OUT://outside.example:2222",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
            "inter.broker.listener.name": "IN",
        }
    ],
    indirect=True,
)
async def test_each_listener_tells_its_own_address(broker: InProcessBroker) -> None:
    told = []
    for address in broker.server.addresses:
        async with await WireClient.connect(address) as client:
            (node,) = (await client.call(ApiKey.METADATA, topics=[])).brokers
            told.append((node.host, node.port))
    assert told == [("inside.example", 1111), ("outside.example", 2222)]


# Created by asking -------------------------------------------------------------------------------


@pytest.mark.parametrize("broker", [{"num.partitions": "4"}], indirect=True)
async def test_asking_for_a_topic_creates_it(broker: InProcessBroker, client: WireClient) -> None:
    topics = await metadata(client, "new", allow_auto_topic_creation=True)
    assert (topics["new"].error_code, len(topics["new"].partitions)) == (0, 4)
    assert (await client.produce("new", one_batch(b"v"), partition=3)).error_code == 0


@pytest.mark.parametrize("broker", [{"auto.create.topics.enable": "false"}], indirect=True)
async def test_a_broker_may_forbid_that(broker: InProcessBroker, client: WireClient) -> None:
    for _ in range(2):
        topics = await metadata(client, "new", allow_auto_topic_creation=True)
        assert topics["new"].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await metadata(client) == {}


async def test_a_client_may_decline(client: WireClient) -> None:
    topics = await metadata(client, "new", allow_auto_topic_creation=False)
    assert topics["new"].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await metadata(client) == {}


async def test_versions_that_cannot_decline_create_it(client: WireClient) -> None:
    topics = await metadata(client, "new", version=1)
    assert topics["new"].error_code == 0


async def test_an_illegal_name_is_not_created(client: WireClient) -> None:
    topics = await metadata(client, "no spaces", allow_auto_topic_creation=True)
    assert topics["no spaces"].error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await metadata(client) == {}


async def test_many_clients_asking_for_the_same_new_topic_get_the_same(
    broker: InProcessBroker,
) -> None:
    clients = [await broker.connect() for _ in range(10)]
    answers = await asyncio.gather(
        *(metadata(client, "new", allow_auto_topic_creation=True) for client in clients)
    )
    assert {answer["new"].error_code for answer in answers} == {ErrorCode.NONE}
    assert len({answer["new"].topic_id for answer in answers}) == 1


# More partitions ---------------------------------------------------------------------------------


async def grow(client: WireClient, **topic: Any) -> ErrorCode:
    answer = await client.call(
        ApiKey.CREATE_PARTITIONS,
        topics=[{"assignments": None, **{k: v for k, v in topic.items() if k != "validate_only"}}],
        validate_only=topic.get("validate_only", False),
        timeout=60_000,
    )
    (result,) = answer.results
    return error_from(result.error_code)


async def test_a_topic_grows_and_keeps_what_it_has(client: WireClient) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"kept"))
    assert await grow(client, name="t", count=3) is ErrorCode.NONE
    assert (await client.produce("t", one_batch(b"new"), partition=2)).error_code == 0
    assert values_of(await client.fetch("t")) == [b"kept"]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"name": "t", "count": 2}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "t", "count": 1}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "nowhere", "count": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            {"name": "t", "count": 4, "assignments": [{"broker_ids": [1]}]},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            {"name": "t", "count": 3, "assignments": [{"broker_ids": [7]}]},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            {"name": "t", "count": 3, "assignments": [{"broker_ids": [1]}]},
            ErrorCode.NONE,
        ),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_growing_is_checked(
    client: WireClient, wanted: dict[str, Any], code: ErrorCode
) -> None:
    await client.create_topic("t", 2)
    assert await grow(client, validate_only=True, **wanted) is code
    assert len((await metadata(client, "t"))["t"].partitions) == 2
    assert await grow(client, **wanted) is code
    expected = 2 if code else wanted["count"]
    assert len((await metadata(client, "t"))["t"].partitions) == expected


# Deleting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("broker", [{"log.segment.delete.delay.ms": "100"}], indirect=True)
async def test_a_deleted_topic_is_gone_at_once_and_its_files_later(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", 2)
    await client.produce("t", one_batch(b"v"))

    def directories() -> list[str]:
        return sorted(path.name for path in broker.data_dir.glob("t-*"))

    assert directories() == ["t-0", "t-1"]
    assert await delete(client, {"name": "t"}) == [ErrorCode.NONE]
    assert await metadata(client) == {}
    renamed = directories()
    assert len(renamed) in (0, 1, 2)
    assert all(name.endswith("-delete") for name in renamed)
    result = await client.produce("t", one_batch(b"v"))
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await eventually(lambda: directories() == [], "removal of the files")


async def test_without_delay_settings_files_stay_renamed_for_a_while(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    await delete(client, {"name": "t"})
    (left,) = broker.data_dir.glob("t-*")
    assert left.name.endswith("-delete")
    assert left.name.startswith("t-0.")


async def test_a_deleted_topic_can_be_made_again_and_is_empty(client: WireClient) -> None:
    first = await client.create_topic("t")
    await client.produce("t", one_batch(b"old"))
    await delete(client, {"name": "t"})
    second = await client.create_topic("t")
    assert first != second
    fetched = await client.fetch("t")
    assert (fetched.error_code, fetched.high_watermark) == (0, 0)


async def test_topics_are_deleted_by_name_or_by_id(client: WireClient) -> None:
    topic_id = await client.create_topic("by-id")
    await client.create_topic("by-name")
    await client.create_topic("stays")
    codes = await delete(
        client,
        {"topic_id": topic_id, "name": None},
        {"name": "by-name"},
        {"name": "nowhere"},
        {"topic_id": UNKNOWN_ID, "name": None},
    )
    assert sorted(codes) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert set(await metadata(client)) == {"stays"}


@pytest.mark.parametrize("broker", [{"delete.topic.enable": "false"}], indirect=True)
async def test_deletion_can_be_disabled(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic("t")
    assert await delete(client, {"name": "t"}) == [ErrorCode.TOPIC_DELETION_DISABLED]
    assert await delete(client, {"name": "t"}, version=2) == [ErrorCode.INVALID_REQUEST]
    assert set(await metadata(client)) == {"t"}


async def test_a_deleted_topics_settings_do_not_come_back(client: WireClient) -> None:
    await client.create_topic("t", configs={"max.message.bytes": "10"})
    await delete(client, {"name": "t"})
    await client.create_topic("t")
    assert (await client.produce("t", one_batch(b"x" * 100))).error_code == 0


# Page by page ------------------------------------------------------------------------------------


async def page(
    client: WireClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    answer = await client.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    found = [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]
    after = answer.next_cursor
    return found, None if after is None else (after.topic_name, after.partition_index)


async def test_partitions_come_in_pages_that_follow_each_other(client: WireClient) -> None:
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        await client.create_topic(name, partitions)
    pages, cursor = [], None
    while True:
        found, cursor = await page(client, limit=2, cursor=cursor)
        pages.append(found)
        if cursor is None:
            break
    assert pages == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]


async def test_without_a_limit_in_the_way_one_page_holds_all(client: WireClient) -> None:
    await client.create_topic("b", 2)
    await client.create_topic("a")
    assert await page(client) == ([("a", [0]), ("b", [0, 1])], None)
    assert await page(client, "b") == ([("b", [0, 1])], None)
    assert await page(client, "b", "a", cursor=("a", 1)) == ([("a", []), ("b", [0, 1])], None)
    assert await page(client, cursor=("aa", 0)) == ([("b", [0, 1])], None)


async def test_topics_that_are_not_there_are_told_on_their_page(client: WireClient) -> None:
    answer = await client.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=[{"name": "nowhere"}, {"name": "no spaces"}],
        response_partition_limit=10,
    )
    assert {t.name: error_from(t.error_code) for t in answer.topics} == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "no spaces": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


@pytest.mark.parametrize("cursor", [("t", -1), ("s", 0), ("u", 0)])
async def test_a_cursor_that_no_page_ended_with_is_refused(
    client: WireClient, cursor: tuple[str, int]
) -> None:
    await client.create_topic("t")
    answer = await client.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=[{"name": "t"}],
        response_partition_limit=10,
        cursor={"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    assert [error_from(t.error_code) for t in answer.topics] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("broker", [{"max.request.partition.size.limit": "2"}], indirect=True)
async def test_the_brokers_limit_holds_for_every_page(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", 5)
    assert await page(client, "t") == ([("t", [0, 1])], ("t", 2))
    assert await page(client, "t", limit=0) == ([("t", [0])], ("t", 1))


# Directories -------------------------------------------------------------------------------------


async def test_log_directories_are_described(
    broker: InProcessBroker, client: WireClient, tmp_path: Path
) -> None:
    await client.create_topic("t", 2)
    await client.create_topic("u")
    await client.produce("t", one_batch(b"v"), partition=1)
    answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None)
    (directory,) = answer.results
    assert (directory.error_code, directory.log_dir) == (0, str(broker.data_dir))
    assert 0 < directory.usable_bytes <= directory.total_bytes
    sizes = {
        (t.name, p.partition_index): p.partition_size
        for t in directory.topics
        for p in t.partitions
    }
    written = (broker.data_dir / "t-1" / f"{0:020}.log").stat().st_size
    assert sizes == {("t", 0): 0, ("t", 1): written, ("u", 0): 0}
    one = await client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=[{"topic": "t", "partitions": [1, 9]}])
    (directory,) = one.results
    assert [(t.name, len(t.partitions)) for t in directory.topics] == [("t", 1)]
