"""Log directories: described, chosen, failed."""

from __future__ import annotations

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, one_batch

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey


@pytest.fixture
async def topic(client: WireClient) -> str:
    await client.create_topic("t", 2)
    return "t"


@pytest.mark.parametrize("broker", [{"log.dirs": "/a,/b"}], indirect=True)
async def test_log_directories_are_described_and_replicas_moved(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None)
    where = {
        p.partition_index: directory.log_dir
        for directory in answer.results
        for described in directory.topics
        for p in described.partitions
    }
    assert sorted(where) == [0, 1]
    other = "/b" if where[0] == "/a" else "/a"
    moved = [{"name": topic, "partitions": [0, 9]}, {"name": "nope", "partitions": [0]}]
    dirs = [
        {"path": other, "topics": moved},
        {"path": "/c", "topics": [moved[0] | {"partitions": [1]}]},
    ]
    answer = await client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=dirs)
    codes = {
        (result.topic_name, p.partition_index): p.error_code
        for result in answer.results
        for p in result.partitions
    }
    assert codes == {
        (topic, 0): 0,
        (topic, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (topic, 1): ErrorCode.LOG_DIR_NOT_FOUND,
    }
    only = await client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=[{"topic": topic, "partitions": [1]}])
    described = [p.partition_index for d in only.results for t in d.topics for p in t.partitions]
    assert described == [1]


@pytest.mark.parametrize("broker", [{"log.dirs": "/a,/b"}], indirect=True)
async def test_a_failed_directory_says_so_and_the_controller_hears_of_it(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    lost = broker.partition(topic).log.directory.rpartition("/")[0]
    broker.parts.logs.fail_dir(lost, "on fire")
    await broker.settle()
    answer = await client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None)
    codes = {directory.log_dir: directory.error_code for directory in answer.results}
    assert codes[lost] is ErrorCode.KAFKA_STORAGE_ERROR
    assert sorted(codes.values()) == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    metadata = await client.call(ApiKey.METADATA, topics=[{"name": topic}])
    partition = metadata.topics[0].partitions[0]
    assert (partition.leader_id, partition.offline_replicas) == (-1, (1,))
    assert (await client.produce(topic, one_batch(b"v"))).error_code == (
        ErrorCode.KAFKA_STORAGE_ERROR
    )
