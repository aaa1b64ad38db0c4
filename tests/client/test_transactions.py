"""Transactions.

A cluster of today, Moldau among them, has transaction version 2 (KIP-890). ``old_kafka`` has
version 1, where producers announce partitions and offsets to the coordinator, and keep their epoch
over transactions.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.client.conftest import topic_factory
from tests.client.reading import values_of
from tests.support.apache_kafka import ApacheKafka
from tests.support.target import Target

from moldau import (
    AsyncProducer,
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    RecordTooLargeError,
    TopicPartition,
    TransactionAbortableError,
    TransactionStateError,
)
from moldau.client.client import Client
from moldau.client.producer.prepared_transaction import PreparedTransaction, end_prepared
from moldau.errors import ErrorCode

SECONDS = 120


@pytest.fixture(scope="module")
def old_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    options = ("--feature", "transaction.version=1")
    with ApacheKafka(tmp_path_factory.mktemp("old"), format_options=options) as kafka:
        yield kafka


@pytest.fixture
def topic(cluster: Target) -> str:
    return topic_factory(cluster.bootstrap)(partitions=2, max_message_bytes=20_000)


@pytest.fixture
def transactional_id() -> str:
    return f"tx-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def producer(cluster: Target, transactional_id: str) -> Iterator[Producer]:
    with Producer(
        bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id
    ) as producer:
        producer.init_transactions()
        yield producer


def fail_after(_done: object) -> None:
    raise ZeroDivisionError


def committed(cluster: Target, topic: str) -> list[bytes | None]:
    return sorted(
        values_of(cluster.bootstrap, topic, isolation="read_committed"), key=lambda v: v or b""
    )


def test_only_committed_records_are_seen(cluster: Target, topic: str, producer: Producer) -> None:
    for number in range(6):
        producer.begin_transaction()
        sent = [producer.send(topic, b"%d" % number, partition=p) for p in (0, 1)]
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            assert all(delivery.exception(0) is None for delivery in sent)
    assert committed(cluster, topic) == [b"0", b"0", b"2", b"2", b"4", b"4"]


def test_a_block_commits_at_its_end_and_aborts_on_an_exception(
    cluster: Target, topic: str, producer: Producer
) -> None:
    with producer.transaction():
        producer.send(topic, b"good")
    with pytest.raises(ZeroDivisionError), producer.transaction():
        fail_after(producer.send(topic, b"bad").result(SECONDS))
    with producer.transaction():
        pass  # nothing was sent: nothing to tell anybody
    with producer.transaction():
        producer.send(topic, b"good too")
    assert committed(cluster, topic) == [b"good", b"good too"]


async def test_transactions_from_asyncio(
    cluster: Target, topic: str, transactional_id: str
) -> None:
    async with AsyncProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id
    ) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_many(topic, [b"%d" % n for n in range(1000)])
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                fail_after(await producer.send(topic, b"bad"))
    assert len(committed(cluster, topic)) == 1000


def test_a_failed_record_lets_only_abort_lead_on(
    cluster: Target, topic: str, producer: Producer
) -> None:
    producer.begin_transaction()
    producer.send(topic, b"good")
    failed = producer.send(topic, b"x" * 30_000)
    assert isinstance(failed.exception(SECONDS), RecordTooLargeError)
    with pytest.raises(TransactionAbortableError, match="has to be aborted"):
        producer.send(topic, b"no use")
    with pytest.raises(TransactionAbortableError, match="has to be aborted"):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"next")
    assert committed(cluster, topic) == [b"next"]


def test_a_failure_found_at_the_commit_aborts(
    cluster: Target, topic: str, producer: Producer
) -> None:
    with pytest.raises(TransactionAbortableError), producer.transaction():
        producer.send(topic, b"x" * 30_000)
    with producer.transaction():
        producer.send(topic, b"next")
    assert committed(cluster, topic) == [b"next"]


def test_a_newer_producer_fences_the_older_one_off(
    cluster: Target, topic: str, producer: Producer, transactional_id: str
) -> None:
    producer.begin_transaction()
    producer.send(topic, b"from the old one").result(SECONDS)
    with Producer(bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id) as newer:
        newer.init_transactions()  # aborts what is open
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()
        with pytest.raises(ProducerFencedError):
            producer.begin_transaction()
        with pytest.raises(ProducerFencedError):
            producer.send(topic, b"")
        with newer.transaction():
            newer.send(topic, b"from the new one")
    assert committed(cluster, topic) == [b"from the new one"]


def test_offsets_are_committed_with_the_transaction(
    cluster: Target, topic: str, producer: Producer
) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    where = TopicPartition(topic, 0)
    with producer.transaction():
        producer.send(topic, b"a", partition=1)
        producer.send_offsets_to_transaction({where: OffsetAndMetadata(5, "note")}, group)
    with pytest.raises(ZeroDivisionError), producer.transaction():
        fail_after(producer.send_offsets_to_transaction({where: 9}, group))
    with Consumer(bootstrap_servers=cluster.bootstrap, group_id=group) as consumer:
        assert consumer.committed([where])[where] == OffsetAndMetadata(5, "note")


def test_offsets_of_a_replaced_member_are_refused(
    cluster: Target, topic: str, producer: Producer
) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    stranger = ConsumerGroupMetadata(group, 3, "not a member")
    with (
        pytest.raises(KafkaError, match=r"knows no such member|generation"),
        producer.transaction(),
    ):
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): 9}, stranger)
    with producer.transaction():
        producer.send(topic, b"next")
    assert committed(cluster, topic) == [b"next"]


def test_closing_aborts_an_open_transaction(
    cluster: Target, topic: str, transactional_id: str
) -> None:
    with Producer(
        bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"never seen").result(SECONDS)
    assert committed(cluster, topic) == []


def test_steps_out_of_turn_are_refused(cluster: Target, topic: str, transactional_id: str) -> None:
    with (
        Producer(bootstrap_servers=cluster.bootstrap) as plain,
        pytest.raises(TransactionStateError, match=r"need a transactional\.id"),
    ):
        plain.begin_transaction()
    with Producer(
        bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id
    ) as producer:
        with pytest.raises(TransactionStateError, match=r"call init_transactions\(\) first"):
            producer.begin_transaction()
        producer.init_transactions()
        with pytest.raises(TransactionStateError, match=r"call begin_transaction\(\) first"):
            producer.send(topic, b"").result(SECONDS)
        with pytest.raises(TransactionStateError, match="producer is ready"):
            producer.init_transactions()
        with pytest.raises(TransactionStateError, match="producer is ready"):
            producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="producer is in transaction"):
            producer.begin_transaction()


def test_transaction_version_1(old_kafka: ApacheKafka, transactional_id: str) -> None:
    topic = topic_factory(old_kafka.bootstrap)(partitions=3, max_message_bytes=20_000)
    group = f"group-{uuid.uuid4().hex[:8]}"
    where = TopicPartition(topic, 0)
    with Producer(
        bootstrap_servers=old_kafka.bootstrap, transactional_id=transactional_id
    ) as producer:
        producer.init_transactions()
        assert not producer._inner._transactions.implicit
        for number in range(4):
            producer.begin_transaction()
            for partition in range(3):
                producer.send(topic, b"%d" % number, partition=partition)
            if number % 2:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.send_offsets_to_transaction({where: number}, group)
                producer.commit_transaction()
        with pytest.raises(TransactionAbortableError), producer.transaction():
            producer.send(topic, b"x" * 30_000)  # its number is lost: a new epoch is asked for
        with producer.transaction():
            producer.send(topic, b"9", partition=0)
    assert committed(old_kafka, topic) == [b"0", b"0", b"0", b"2", b"2", b"2", b"9"]
    with Consumer(bootstrap_servers=old_kafka.bootstrap, group_id=group) as consumer:
        assert consumer.committed([where])[where] == OffsetAndMetadata(2)


async def test_a_prepared_transaction_is_ended_by_somebody_else(
    cluster: Target, topic: str, transactional_id: str
) -> None:
    async def prepare(name: str, value: bytes) -> PreparedTransaction:
        async with AsyncProducer(
            bootstrap_servers=cluster.bootstrap, transactional_id=name
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(topic, value)
            prepared = await producer.prepare_transaction()
            with pytest.raises(TransactionStateError, match="producer is prepared"):
                await producer.commit_transaction()
        assert prepared is not None
        return prepared

    kept = await prepare(f"{transactional_id}-kept", b"kept")
    dropped = await prepare(f"{transactional_id}-dropped", b"dropped")
    async with Client(cluster.bootstrap) as client:
        for transaction, commit in ((kept, True), (dropped, False)):
            for _ in range(2):
                await end_prepared(client.cluster, transaction, commit=commit, within=SECONDS)
            with pytest.raises(KafkaError) as refused:
                await end_prepared(client.cluster, transaction, commit=not commit, within=SECONDS)
            assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    assert committed(cluster, topic) == [b"kept"]


async def test_preparing_without_records_leaves_no_transaction(
    cluster: Target, transactional_id: str
) -> None:
    async with AsyncProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id
    ) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        assert await producer.prepare_transaction() is None
