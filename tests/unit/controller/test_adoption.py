"""Directories written by Apache Kafka: their metadata log, and what is made of both."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from struct import pack
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controller.harness import Cluster

from moldau.controller.adoption import FoundPartition, plan_adoption, write_batches
from moldau.controller.kraft import metadata_values, replay
from moldau.controller.kraft_image import KraftPartition, KraftTopic, MetadataImage
from moldau.controller.requests import ProducerIdBlock
from moldau.coordination import cluster as store_cluster
from moldau.coordination.store import Create
from moldau.errors import ErrorCode, KafkaError
from moldau.quotas.entity import ClientQuotaEntity

SAMPLE = gzip.decompress(
    (Path(__file__).parent / "data" / "cluster-metadata-4.3.1.log.gz").read_bytes()
)
"""The metadata log of an Apache Kafka 4.3.1 broker that created, changed and deleted topics."""


def found(topic: str, partition: int, topic_id: int | None = 1, epoch: int = 0) -> FoundPartition:
    return FoundPartition(topic, partition, None if topic_id is None else UUID(int=topic_id), epoch)


def fresh_id() -> UUID:
    return UUID(int=1000)


# The metadata log


def test_a_real_metadata_log_gives_topics_settings_and_producer_ids() -> None:
    image = replay(metadata_values(SAMPLE))
    partitions = {topic.name: sorted(topic.partitions) for topic in image.topics.values()}
    assert partitions == {
        "a_b": [0],
        "asg": [0, 1],
        "cfg": [0],
        "orders": [0, 1, 2],
        "plain": [0, 1, 2, 3],
    }
    assert image.topic_configs == {
        "cfg": {"cleanup.policy": "compact", "retention.ms": "12345"},
        "orders": {"cleanup.policy": "compact,delete", "retention.ms": "86400000"},
        "plain": {"max.message.bytes": "777777"},
    }
    assert image.broker_configs == {"": {"min.insync.replicas": "1"}}
    assert image.next_producer_id == 1000
    orders = image.topic_named("orders")
    assert orders is not None
    assert orders.topic_id == UUID("4b9ab318-70fb-4955-9745-889199007f30")
    assert orders.partitions[0] == KraftPartition((1,), 3)
    assert image.topic_named("gone") is None


def test_replaying_a_metadata_log_twice_changes_nothing() -> None:
    values = list(metadata_values(SAMPLE))
    once, twice = replay(values), replay(values + values)
    assert once == twice


def test_a_torn_batch_at_the_end_of_the_metadata_log_is_left_out() -> None:
    values = list(metadata_values(SAMPLE))
    assert list(metadata_values(SAMPLE[:-5])) == values[: len(list(metadata_values(SAMPLE[:-5])))]
    assert len(list(metadata_values(SAMPLE[:-5]))) < len(values)


def record(kind: int, body: bytes = b"\x00") -> bytes:
    return bytes([1, kind, 0]) + body


def topic_record(name: str, topic_id: int) -> bytes:
    return record(2, bytes([len(name) + 1]) + name.encode() + UUID(int=topic_id).bytes + b"\x00")


def test_an_aborted_or_unfinished_transaction_counts_for_nothing() -> None:
    begin, end, abort = record(23), record(24), record(25)
    image = replay(
        [
            topic_record("a", 1),
            begin,
            topic_record("b", 2),
            end,
            begin,
            topic_record("c", 3),
            abort,
            topic_record("d", 4),
            begin,
            topic_record("e", 5),
        ]
    )
    assert [topic.name for topic in image.topics.values()] == ["a", "b", "d"]


def text(value: str | None) -> bytes:
    return b"\x00" if value is None else bytes([len(value) + 1]) + value.encode()


def quota_record(entries: dict[str, str | None], key: str, value: float | None) -> bytes:
    entity = b"".join(text(kind) + text(name) + b"\x00" for kind, name in entries.items())
    remove = value is None
    return record(
        14,
        bytes([len(entries) + 1]) + entity + text(key) + pack(">d?", value or 0, remove) + b"\x00",
    )


def test_quotas_are_set_and_removed() -> None:
    user: dict[str, str | None] = {"user": "u"}
    client: dict[str, str | None] = {"client-id": None, "user": "u"}
    image = replay(
        [
            quota_record(client, "producer_byte_rate", 5),
            quota_record(client, "request_percentage", 12.5),
            quota_record(user, "consumer_byte_rate", 7),
            quota_record(client, "producer_byte_rate", None),
            quota_record({"ip": "::1"}, "connection_creation_rate", 1),
            quota_record({"ip": "::1"}, "connection_creation_rate", None),
            quota_record({"ip": "::1"}, "connection_creation_rate", None),
        ]
    )
    assert image.client_quotas == {
        ClientQuotaEntity.of(client): {"request_percentage": 12.5},
        ClientQuotaEntity.of(user): {"consumer_byte_rate": 7},
    }


def test_unknown_records_are_skipped() -> None:
    assert replay([record(99, b"whatever"), topic_record("a", 1)]).topic_named("a") is not None


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_a_malformed_record_never_breaks_the_reader(garbage: bytes) -> None:
    for kind in (2, 3, 4, 5, 9, 14, 15):
        # Whatever is not malformed by chance is read; nothing but KafkaError may come out.
        with suppress(KafkaError):
            replay([topic_record("a", 1), record(kind, garbage)])


@pytest.mark.parametrize("kind", [2, 3, 4, 9, 14, 15])
def test_a_record_that_ends_early_is_reported(kind: int) -> None:
    with pytest.raises(KafkaError) as caught:
        replay([record(kind, b"\x05")])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_another_framing_is_refused() -> None:
    with pytest.raises(KafkaError, match="frame version 2"):
        replay([b"\x02" + topic_record("a", 1)[1:]])


def test_a_record_of_a_version_from_the_future_is_refused() -> None:
    with pytest.raises(KafkaError, match="TopicRecord version 1: versions 0 to 0"):
        replay([b"\x01\x02\x01" + topic_record("a", 1)[3:]])


# The plan


def test_topics_are_taken_over_with_their_ids_and_epochs() -> None:
    plan = plan_adoption(
        [found("a", 1, epoch=7), found("a", 0, epoch=-1), found("b", 0, 2)],
        4,
        fresh_id,
        topic_configs={"a": {"retention.ms": "1"}},
    )
    assert plan.topics["a"].topic_id == UUID(int=1)
    assert plan.topics["a"].partitions == {0: (4,), 1: (4,)}
    assert plan.topics["b"].topic_id == UUID(int=2)
    assert (plan.strays, plan.warnings) == ([], [])


def test_the_metadata_log_itself_is_no_topic() -> None:
    plan = plan_adoption([found("__cluster_metadata", 0), found("a", 0)], 1, fresh_id)
    assert list(plan.topics) == ["a"]
    assert plan.strays == []


def test_a_topic_from_before_topic_ids_gets_one() -> None:
    plan = plan_adoption([found("a", 0, None), found("a", 1, None)], 1, fresh_id)
    assert plan.topics["a"].topic_id == UUID(int=1000)
    mixed = plan_adoption([found("a", 0, None), found("a", 1, 5)], 1, fresh_id)
    assert mixed.topics["a"].topic_id == UUID(int=5)
    assert mixed.strays == []


def test_a_directory_of_an_earlier_topic_of_the_same_name_is_not_served() -> None:
    plan = plan_adoption([found("a", 0, 5), found("a", 1, 5), found("a", 2, 6)], 1, fresh_id)
    assert plan.strays == [found("a", 2, 6)]
    assert sorted(plan.topics["a"].partitions) == [0, 1]
    assert "a-2" in plan.warnings[0]


def test_gaps_are_filled_and_reported() -> None:
    plan = plan_adoption([found("a", 0), found("a", 3)], 1, fresh_id)
    assert sorted(plan.topics["a"].partitions) == [0, 1, 2, 3]
    (warning,) = plan.warnings
    assert "4 partitions" in warning
    assert "1, 2 are not" in warning


def kraft_image(*topics: KraftTopic) -> MetadataImage:
    return MetadataImage({topic.topic_id: topic for topic in topics})


def test_topics_that_the_metadata_log_deleted_are_strays() -> None:
    image = kraft_image(KraftTopic("a", UUID(int=1), {0: KraftPartition((1,), 0)}))
    plan = plan_adoption([found("a", 0, 1), found("old", 0, 2)], 1, fresh_id, image=image)
    assert list(plan.topics) == ["a"]
    assert plan.strays == [found("old", 0, 2)]
    assert "old was deleted" in plan.warnings[0]


def test_a_recreated_topic_is_told_from_its_predecessor_by_id() -> None:
    image = kraft_image(
        KraftTopic("a", UUID(int=9), {0: KraftPartition((1,), 0), 1: KraftPartition((1,), 0)})
    )
    plan = plan_adoption([found("a", 0, 1), found("a", 1, 9)], 1, fresh_id, image=image)
    assert plan.topics["a"].topic_id == UUID(int=9)
    assert plan.strays == [found("a", 0, 1)]
    assert sorted(plan.topics["a"].partitions) == [0, 1]


def test_a_topic_that_lives_on_other_brokers_is_left_out() -> None:
    here = KraftTopic("here", UUID(int=1), {0: KraftPartition((1, 2), 0)})
    elsewhere = KraftTopic("elsewhere", UUID(int=2), {0: KraftPartition((2, 3), 0)})
    plan = plan_adoption([], 1, fresh_id, image=kraft_image(here, elsewhere))
    assert list(plan.topics) == ["here"]
    assert any("elsewhere" in warning for warning in plan.warnings)


# The whole way


async def test_an_adopted_directory_is_led_above_every_epoch_it_knew() -> None:
    cluster = Cluster()
    await cluster.open()
    session = cluster.store.session()
    await store_cluster.prepare(session)
    image = replay(metadata_values(SAMPLE))
    orders = image.topic_named("orders")
    assert orders is not None
    on_disk = [
        FoundPartition(topic.name, number, topic.topic_id, 5 if topic is orders else 2)
        for topic in image.topics.values()
        for number in topic.partitions
    ]
    plan = plan_adoption(on_disk, 1, fresh_id, image=image)
    assert plan.warnings == []
    assert plan.strays == []
    await write_batches(session, plan.batches)
    await write_batches(session, plan.batches)
    assert await store_cluster.get_cluster_id(session) is None
    assert await store_cluster.ensure_cluster_id(session, "first") == "first"
    assert await store_cluster.ensure_cluster_id(session, "second") == "first"

    controller = await cluster.start(1)
    broker = cluster.brokers[1]
    assert set(broker.replicas) == {(one.topic, one.partition) for one in on_disk}
    assert broker.replicas["orders", 0].leader_epoch == 6
    assert broker.replicas["plain", 0].leader_epoch == 4
    assert broker.replicas["orders", 2].topic_id == orders.topic_id
    assert broker.topic_configs["plain"] == {"max.message.bytes": "777777"}
    assert broker.broker_configs == {"": {"min.insync.replicas": "1"}}
    assert await controller.next_producer_id_block(1) == ProducerIdBlock(1000, 1000)


async def test_producer_ids_seen_in_the_logs_are_not_given_out_again() -> None:
    cluster = Cluster()
    await cluster.open()
    session = cluster.store.session()
    await store_cluster.prepare(session)
    await write_batches(
        session, plan_adoption([found("a", 0)], 1, fresh_id, next_producer_id=4321).batches
    )
    controller = await cluster.start(1)
    assert await controller.next_producer_id_block(1) == ProducerIdBlock(4321, 1000)


def test_a_quota_that_cannot_be_is_left_out_and_told() -> None:
    entity = ClientQuotaEntity.of({"user": "u"})
    broken = {"producer_byte_rate": 0.0, "consumer_byte_rate": float("nan"), "unknown": 1.0}
    image = MetadataImage(
        client_quotas={
            entity: {**broken, "request_percentage": 5.0},
            ClientQuotaEntity.of({"group": "g"}): {"producer_byte_rate": 5.0},
            ClientQuotaEntity.of({"ip": "::ffff:1.2.3.4"}): {"connection_creation_rate": 8.0},
        }
    )
    plan = plan_adoption([], 1, fresh_id, image=image)
    assert {op.path for batch in plan.batches for op in batch if isinstance(op, Create)} == {
        "/config/users/u",
        "/config/ips/1.2.3.4",
    }
    assert len(plan.warnings) == 4
    assert "producer_byte_rate=0.0 of ClientQuotaEntity(entries={user=u})" in "".join(plan.warnings)


async def test_quotas_are_taken_over() -> None:
    cluster = Cluster()
    await cluster.open()
    session = cluster.store.session()
    await store_cluster.prepare(session)
    quotas: dict[ClientQuotaEntity, dict[str, float]] = {
        ClientQuotaEntity.of({"user": "u", "client-id": "c"}): {"producer_byte_rate": 5},
        ClientQuotaEntity.of({"user": "u", "client-id": "d"}): {"producer_byte_rate": 6},
        ClientQuotaEntity.of({"user": "u"}): {"consumer_byte_rate": 7},
        ClientQuotaEntity.of({"ip": None}): {"connection_creation_rate": 8},
    }
    image = MetadataImage(client_quotas=quotas)
    plan = plan_adoption([], 1, fresh_id, image=image)
    await write_batches(session, plan.batches)
    await write_batches(session, plan.batches)
    await cluster.start(1)
    assert cluster.brokers[1].client_quotas == quotas


async def test_a_large_topic_is_adopted_in_batches() -> None:
    cluster = Cluster()
    await cluster.open()
    session = cluster.store.session()
    await store_cluster.prepare(session)
    plan = plan_adoption([found("big", number) for number in range(2500)], 1, fresh_id)
    assert max(map(len, plan.batches)) <= 2000
    await write_batches(session, plan.batches)
    await cluster.start(1)
    assert len(cluster.brokers[1].replicas) == 2500
