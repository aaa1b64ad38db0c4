"""Snapshots of the cluster, and how answers bring them up to date."""

from uuid import UUID

from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from moldau.client.metadata import NO_LEADER, read_metadata
from moldau.errors import ErrorCode
from moldau.model import NO_TOPIC_ID, Node
from moldau.wire.make import make


def partition(index: int, leader: int = 1, error: int = 0) -> MetadataResponsePartition:
    return make(
        MetadataResponsePartition,
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=5,
        replica_nodes=(1, 2),
        isr_nodes=(1,),
        offline_replicas=(),
    )


def topic(
    name: str, *partitions: MetadataResponsePartition, error: int = 0
) -> MetadataResponseTopic:
    return make(
        MetadataResponseTopic,
        error_code=error,
        name=name,
        topic_id=UUID(int=7),
        is_internal=False,
        partitions=partitions,
    )


def answer(*topics: MetadataResponseTopic) -> MetadataResponse:
    return make(
        MetadataResponse,
        throttle_time=0,
        brokers=(make(MetadataResponseBroker, node_id=1, host="h", port=9092, rack="r"),),
        cluster_id="c",
        controller_id=1,
        topics=topics,
        error_code=0,
    )


def test_an_answer_is_read() -> None:
    metadata = read_metadata(answer(topic("t", partition(1), partition(0, leader=-1))))
    assert metadata.nodes == {1: Node(1, "h", 9092, "r")}
    assert (metadata.cluster_id, metadata.controller_id) == ("c", 1)
    info = metadata.topics["t"]
    assert info.topic_id == UUID(int=7)
    assert list(info.partitions) == [0, 1]
    assert info.with_leader == (1,)
    assert info.replication_factor == 2
    assert info.partitions[1].under_replicated


def test_a_partition_without_leader_has_none_whatever_the_answer_names() -> None:
    lost = partition(0, leader=3, error=ErrorCode.LEADER_NOT_AVAILABLE)
    info = read_metadata(answer(topic("t", lost))).topics["t"]
    assert info.partitions[0].leader == NO_LEADER
    assert info.with_leader == ()


def test_topics_that_cannot_be_described_are_errors() -> None:
    metadata = read_metadata(answer(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    assert metadata.topics == {}
    assert metadata.errors["t"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_update_replaces_what_was_asked_for_and_keeps_the_rest() -> None:
    missing = topic("a", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before = read_metadata(answer(topic("a", partition(0)), topic("b", partition(0))))
    after = before.updated(read_metadata(answer(missing)), ["a"])
    assert set(after.topics) == {"b"}
    assert set(after.errors) == {"a"}
    again = after.updated(read_metadata(answer(topic("a", partition(0)))), ["a"])
    assert set(again.topics) == {"a", "b"}
    assert again.errors == {}
    assert set(before.updated(read_metadata(answer(topic("c"))), None).topics) == {"c"}


def test_old_answers_without_ids_give_the_zero_id() -> None:
    nameless = make(
        MetadataResponseTopic,
        error_code=0,
        name="t",
        topic_id=None,
        is_internal=True,
        partitions=(),
    )
    info = read_metadata(answer(nameless)).topics["t"]
    assert (info.topic_id, info.replication_factor, info.internal) == (NO_TOPIC_ID, 0, True)
