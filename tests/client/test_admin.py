"""Administration through ``Admin``, the blocking form of what ``AsyncAdmin`` does."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer as OtherProducer
from tests.client.conftest import NewTopicFactory
from tests.support.apache_kafka import ApacheKafkaCluster
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.admin import (
    Admin,
    AlterOperation,
    AsyncAdmin,
    ClientQuota,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ElectionType,
    GroupDescription,
    MatchType,
    MemberToRemove,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Outcome,
    Replica,
    ResourceType,
)
from moldau.client.errors import NoBrokersError, TimedOutError, UnsupportedApiError
from moldau.client.metadata import PartitionInfo
from moldau.errors import ErrorCode
from moldau.model import TopicPartition


@pytest.fixture
def admin(cluster: Target) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def kafka_admin(kafka: Target) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka.bootstrap) as admin:
        yield admin


def unique(prefix: str = "admin") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def code_of(outcome: Outcome[Any]) -> ErrorCode | None:
    return None if outcome.error is None else outcome.error.code


def produce(cluster: Target, topic: str, count: int, partition: int = 0) -> None:
    producer = OtherProducer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


class Member:
    """A member of a group, of another client, that polls until it is closed."""

    def __init__(self, cluster: Target, group: str, topic: str, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self._consumer = OtherConsumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                **named,
            }
        )
        self._consumer.subscribe([topic])
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            self._consumer.poll(0.05)

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self._consumer.close()


def test_topics_are_created_described_grown_and_deleted(admin: Admin) -> None:
    name, other = unique(), unique()
    created = admin.create_topics(
        [NewTopic(name, 2, 1, {"retention.ms": "60000"}), NewTopic(other, 1, 1)]
    )
    assert [(o.get().name, o.get().partitions) for o in created] == [(name, 2), (other, 1)]
    eventually(lambda: {name, other} <= {topic.name for topic in admin.list_topics()})
    assert admin.create_partitions({name: 5})[0].get() == 5
    eventually(lambda: len(admin.describe_topics([name])[0].get().partitions) == 5)
    assert [o.error for o in admin.delete_topics([name, other])] == [None, None]
    eventually(lambda: not {name, other} & {topic.name for topic in admin.list_topics()})


def test_a_bad_item_does_not_hide_the_others(admin: Admin, new_topic: NewTopicFactory) -> None:
    there, name = new_topic(), unique()
    outcomes = admin.create_topics([NewTopic(there, 1, 1), NewTopic(name, 1, 1)])
    assert [code_of(o) for o in outcomes] == [ErrorCode.TOPIC_ALREADY_EXISTS, None]
    eventually(lambda: name in {topic.name for topic in admin.list_topics()})
    described = admin.describe_topics([name, unique()])
    assert [code_of(o) for o in described] == [None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [code_of(o) for o in admin.delete_topics([unique(), name])] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    ]


def test_a_topic_that_is_only_validated_does_not_exist(admin: Admin) -> None:
    name = unique()
    assert admin.create_topics([NewTopic(name, 3, 1)], validate_only=True)[0].error is None
    assert name not in {topic.name for topic in admin.list_topics()}


def test_settings_change_one_by_one(admin: Admin, new_topic: NewTopicFactory) -> None:
    topic = ConfigResource(ResourceType.TOPIC, new_topic(retention_ms=60_000))
    changes = [
        ConfigChange("max.message.bytes", "2000"),
        ConfigChange("cleanup.policy", "compact", AlterOperation.APPEND),
    ]

    def entries() -> dict[str, ConfigEntry]:
        return {e.name: e for e in admin.describe_configs([topic], synonyms=True)[0].get()}

    assert admin.alter_configs({topic: changes})[0].error is None
    eventually(lambda: entries()["max.message.bytes"].value == "2000")
    assert entries()["retention.ms"].value == "60000"
    assert entries()["retention.ms"].source == ConfigSource.TOPIC
    assert set((entries()["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
    (deleted,) = admin.alter_configs(
        {topic: [ConfigChange("retention.ms", None, AlterOperation.DELETE)]}
    )
    assert deleted.error is None
    eventually(lambda: entries()["retention.ms"].source != ConfigSource.TOPIC)
    (refused,) = admin.alter_configs({topic: [ConfigChange("retention.ms", "soon")]})
    assert code_of(refused) == ErrorCode.INVALID_CONFIG


def test_a_broker_answers_about_its_own_settings(admin: Admin) -> None:
    node_id = admin.describe_cluster().nodes[0].id
    (outcome,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node_id))])
    assert {entry.name for entry in outcome.get()} >= {"log.retention.hours", "num.io.threads"}


def test_offsets_and_deleted_records(
    admin: Admin, cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=2)
    produce(cluster, topic, 10)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    end = admin.list_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.LATEST})
    assert (end[first].offset, end[second].offset) == (10, 0)
    outcomes = admin.delete_records({first: 4, TopicPartition(topic, 7): 1})
    assert outcomes[0].get() == 4
    assert code_of(outcomes[1]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.list_offsets({first: OffsetSpec.EARLIEST})[first].offset == 4
    assert code_of(admin.delete_records({first: 99})[0]) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_producers_of_a_partition(
    admin: Admin, cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    producer = OtherProducer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(3):
        producer.produce(topic, value=b"%d" % number)
    producer.flush(60)
    (outcome,) = admin.describe_producers([TopicPartition(topic, 0)])
    (state,) = outcome.get()
    assert state.producer_id >= 0
    assert state.last_sequence == 2
    assert state.transaction_start_offset is None


def test_the_life_of_groups(admin: Admin, cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic(partitions=2)
    produce(cluster, topic, 5)
    classic, modern, missing = unique("classic"), unique("modern"), unique("missing")
    members = [
        Member(cluster, classic, topic, group_instance_id="one"),
        Member(cluster, modern, topic, group_protocol="consumer"),
    ]
    try:
        partitions = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
        eventually(
            lambda: all(_reads(o, partitions) for o in admin.describe_groups([classic, modern]))
        )
        described = admin.describe_groups([classic, missing, modern])
        assert [o.value.type if o.value else None for o in described] == [
            "classic",
            None,
            "consumer",
        ]
        assert code_of(described[1]) == ErrorCode.GROUP_ID_NOT_FOUND
        listed = {g.group: g.type for g in admin.list_groups(states=["Stable"])}
        assert listed[classic] == "classic"
        assert listed[modern] == "consumer"
        removed = admin.remove_group_members(
            classic, [MemberToRemove(instance_id="one"), MemberToRemove(instance_id="two")]
        )
        assert [code_of(o) for o in removed] == [None, ErrorCode.UNKNOWN_MEMBER_ID]
        refused = admin.delete_groups([modern])
        assert [code_of(o) for o in refused] == [ErrorCode.NON_EMPTY_GROUP]
    finally:
        for one in members:
            one.close()
    eventually(lambda: admin.describe_groups([modern])[0].get().state == "Empty")
    wanted = {TopicPartition(topic, 0): OffsetAndMetadata(3, "by hand", 0)}
    assert [o.error for o in admin.alter_group_offsets(modern, wanted)] == [None]
    assert admin.list_group_offsets(modern)[TopicPartition(topic, 0)] == OffsetAndMetadata(
        3, "by hand", 0
    )
    assert [o.error for o in admin.delete_group_offsets(modern, wanted)] == [None]
    assert TopicPartition(topic, 0) not in admin.list_group_offsets(modern)
    outcomes = admin.delete_groups([modern, missing])
    assert [code_of(o) for o in outcomes] == [None, ErrorCode.GROUP_ID_NOT_FOUND]


def test_the_lag_of_a_group(admin: Admin, cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic(partitions=2)
    group = unique("lag")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    before_ms = time.time_ns() // 1_000_000
    produce(cluster, topic, 5)
    end = admin.list_offsets({first: OffsetSpec.LATEST})[first].offset
    admin.alter_group_offsets(group, {first: OffsetAndMetadata(1)})
    lags = admin.group_lag(group, [second])
    assert lags[first].records == end - 1 > 0
    age_ms = time.time_ns() // 1_000_000 - before_ms
    behind_ms = lags[first].behind_ms
    assert behind_ms is not None
    assert 0 <= behind_ms <= age_ms + 1
    assert lags[second].committed is None
    assert lags[second].records is None
    admin.alter_group_offsets(group, {first: OffsetAndMetadata(end)})
    assert admin.group_lag(group)[first][2] == 0


def _reads(outcome: Outcome[GroupDescription], partitions: set[TopicPartition]) -> bool:
    """Whether the group is at rest, with one member that has all of these."""
    group = outcome.value
    if group is None or group.state != "Stable" or len(group.members) != 1:
        return False
    return set(group.members[0].assignment) == partitions


def test_the_cluster_and_its_disks(
    admin: Admin, cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    produce(cluster, topic, 1)
    described = admin.describe_cluster()
    (node,) = described.nodes
    assert f"{node.host}:{node.port}" == cluster.bootstrap
    assert described.controller_id == node.id
    (log_dir,) = admin.describe_log_dirs()
    assert log_dir.error is None
    assert log_dir.sizes[TopicPartition(topic, 0)] > 0
    assert 0 < log_dir.usable_bytes <= log_dir.total_bytes


def test_what_a_broker_does_not_serve_is_said_clearly(
    clusters: Callable[[str], Target],
) -> None:
    with (
        Admin(bootstrap_servers=clusters("moldau").bootstrap) as admin,
        pytest.raises(UnsupportedApiError, match="does not serve DESCRIBE_QUORUM"),
    ):
        admin.describe_metadata_quorum()


def test_nobody_listens() -> None:
    with (
        Admin(
            bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300, request_timeout_ms=200
        ) as admin,
        pytest.raises((NoBrokersError, TimedOutError)),
    ):
        admin.list_topics()


async def test_async_admin_is_the_same(cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic(partitions=3)
    async with AsyncAdmin({"bootstrap.servers": cluster.bootstrap}) as admin:
        (outcome,) = await admin.describe_topics([topic])
        assert sorted(outcome.get().partitions) == [0, 1, 2]


# -- what Moldau does not serve: the KRaft quorum, other levels of features


def test_quorum_and_features(kafka_admin: Admin) -> None:
    quorum = kafka_admin.describe_metadata_quorum()
    assert [voter.node_id for voter in quorum.voters] == [quorum.leader_id]
    features = kafka_admin.describe_features()
    level = features["metadata.version"]
    assert level.finalized is not None
    assert level.oldest <= level.finalized <= level.newest
    kafka_admin.update_features({"metadata.version": level.finalized}, validate_only=True)


# -- transactions


def test_transactions(admin: Admin, cluster: Target) -> None:
    topic, transactional_id = unique(), unique("txn")
    admin.create_topics([NewTopic(topic, 1, 1)])
    producer = OtherProducer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, value=b"in a transaction")
    producer.flush(60)
    listed = {t.transactional_id: t for t in admin.list_transactions(states=["Ongoing"])}
    (outcome, missing) = admin.describe_transactions([transactional_id, unique()])
    description = outcome.get()
    assert listed[transactional_id].producer_id == description.producer_id
    assert description.state == "Ongoing"
    assert description.partitions == (TopicPartition(topic, 0),)
    assert description.start_time_ms is not None
    assert code_of(missing) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    (state,) = admin.describe_producers([TopicPartition(topic, 0)])[0].get()
    assert state.transaction_start_offset == 0
    producer.commit_transaction()


# -- what takes several brokers


def test_replicas_move_and_leaders_are_elected(kafka_cluster: ApacheKafkaCluster) -> None:
    with Admin(bootstrap_servers=kafka_cluster.bootstrap) as admin:
        eventually(lambda: len(admin.describe_cluster().nodes) == 3)
        first, second, third = sorted(node.id for node in admin.describe_cluster().nodes)
        topic = unique()
        admin.create_topics([NewTopic(topic, assignments={0: [first, second]})])[0].get()
        partition = TopicPartition(topic, 0)

        # Brokers hear of changes in their own time, and any of them may be asked.
        def described() -> PartitionInfo | None:
            found = admin.describe_topics([topic])[0].value
            return None if found is None else found.partitions[0]

        def replicas() -> tuple[int, ...]:
            found = described()
            return () if found is None else found.replicas

        def leader() -> int | None:
            found = described()
            return None if found is None else found.leader

        eventually(lambda: replicas() == (first, second))

        moved = admin.alter_partition_reassignments(
            {partition: [third, second], TopicPartition(topic, 9): [first]}
        )
        assert [code_of(o) for o in moved] == [None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        eventually(lambda: not admin.list_partition_reassignments([partition]))
        eventually(lambda: replicas() == (third, second))

        admin.alter_partition_reassignments({partition: [second, third]})
        eventually(lambda: replicas() == (second, third))

        def elected() -> bool:
            """Not while the preferred one is not in sync for a moment."""
            (outcome,) = admin.elect_leaders(ElectionType.PREFERRED, [partition])
            assert code_of(outcome) in (None, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
            return outcome.error is None

        eventually(elected)
        eventually(lambda: leader() == second)
        again = admin.elect_leaders(ElectionType.PREFERRED, [partition])
        assert [o.error for o in again] == [None]
        log_dirs = {d.node_id: d.path for d in admin.describe_log_dirs()}
        here = Replica(topic, 0, second)
        nowhere = Replica(topic, 0, third)
        moves = admin.alter_replica_log_dirs(
            {here: log_dirs[second], nowhere: "/no/such/directory"}
        )
        assert [code_of(o) for o in moves] == [None, ErrorCode.LOG_DIR_NOT_FOUND]


def test_quotas_are_set_described_and_removed(admin: Admin) -> None:
    user, client = unique("user"), unique("client")
    both = ClientQuotaEntity.of({"user": user, "client-id": client})
    default = ClientQuotaEntity.of({"user": user, "client-id": None})
    nobody = ClientQuotaEntity.of({"user": ""})
    of_user = ClientQuotaFilter([ClientQuotaFilterComponent("user", MatchType.EXACT, user)])

    outcomes = admin.alter_client_quotas(
        {
            both: {"producer_byte_rate": 1000, "request_percentage": 12.5},
            nobody: {"producer_byte_rate": 1000},
            default: {"consumer_byte_rate": 2000},
        }
    )
    assert [code_of(outcome) for outcome in outcomes] == [None, ErrorCode.INVALID_REQUEST, None]

    def described() -> dict[ClientQuotaEntity, dict[str, float]]:
        return {one.entity: one.quotas for one in admin.describe_client_quotas(of_user)}

    quotas = {
        both: {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        default: {"consumer_byte_rate": 2000.0},
    }
    eventually(lambda: described() == quotas)
    assert ClientQuota(default, quotas[default]) in admin.describe_client_quotas()
    removal = {both: dict.fromkeys(quotas[both]), default: dict.fromkeys(quotas[default])}
    for outcome in admin.alter_client_quotas(removal, validate_only=True):
        outcome.get()
    assert described() == quotas
    for outcome in admin.alter_client_quotas(removal):
        outcome.get()
    eventually(lambda: described() == {})
