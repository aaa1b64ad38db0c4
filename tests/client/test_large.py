"""Large messages from producers to consumers of ours, on both brokers; crashes in the middle."""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Message
from tests.client.conftest import NewTopicFactory, topic_factory
from tests.support.cli import CommandLine
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.admin import ConfigChange, ConfigResource, ResourceType
from moldau.client.client import Client
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.errors import LargeMessageError, RecordTooLargeError
from moldau.client.large import Chunking, ClaimCheck
from moldau.client.large.clean_up import (
    YOUNG_MS,
    delete_payloads,
    expired_payloads,
    list_payloads,
    unreferenced_payloads,
)
from moldau.client.listener import Listener, Retries
from moldau.client.producer import AsyncProducer, Producer
from moldau.machine.real import this_machine
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.records.consumer_record import ConsumerRecord

CHUNKS = Chunking(threshold=1000)
BIG = bytes(range(256)) * 12_000  # 3 MB, three times what a record may have


def consumer_of(cluster: Target, **more: object) -> Consumer:
    return Consumer(
        {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"},
        bootstrap_servers=cluster.bootstrap,
        **more,  # type: ignore[arg-type]
    )


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline
        found += consumer.poll(0.5).records()
    return found


@pytest.fixture(params=["chunks", "claims"])
def codec(request: pytest.FixtureRequest, tmp_path: Path) -> Chunking | ClaimCheck:
    if request.param == "chunks":
        return Chunking()
    return ClaimCheck(str(tmp_path / "payloads"))


def test_large_values_go_through_send_and_poll(
    cluster: Target, new_topic: NewTopicFactory, codec: Chunking | ClaimCheck
) -> None:
    topic = new_topic()
    with Producer(bootstrap_servers=cluster.bootstrap, large_messages=codec) as producer:
        producer.send(topic, b"small", key=b"k")
        delivery = producer.send(topic, BIG, key=b"k", headers=[("kind", b"photo")])
        producer.send(topic, b"small again", key=b"k")
        producer.flush()
        metadata = delivery.result(0)
    with consumer_of(cluster, large_messages=codec) as consumer:
        consumer.subscribe([topic])
        before, large, after = take(consumer, 3)
    assert (before.value, after.value) == (b"small", b"small again")
    assert (large.key, large.value, large.headers) == (b"k", BIG, (("kind", b"photo"),))
    assert metadata.offset == large.offset


async def test_async_clients_and_deserializers(
    cluster: Target, new_topic: NewTopicFactory, codec: Chunking | ClaimCheck
) -> None:
    topic = new_topic()
    text = "große Nachricht " * 100_000
    settings = {"bootstrap_servers": cluster.bootstrap, "large_messages": codec}
    async with AsyncProducer(value_serializer="json", **settings) as producer:  # type: ignore[arg-type]
        await (await producer.send(topic, {"text": text}))
    async with AsyncConsumer(
        {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"},
        value_deserializer="json",
        **settings,  # type: ignore[arg-type]
    ) as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            assert record.value == {"text": text}
            break


def test_without_it_a_large_value_is_refused(cluster: Target, new_topic: NewTopicFactory) -> None:
    with (
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
        pytest.raises(RecordTooLargeError),
    ):
        producer.send(new_topic(), BIG).result(60)


def test_records_without_a_key_keep_their_chunks_together(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic(partitions=3)
    values = [b"%d" % n * 5000 for n in range(20)]
    with Producer(
        bootstrap_servers=cluster.bootstrap, large_messages=CHUNKS, batch_size=500
    ) as producer:
        deliveries = [producer.send(topic, value) for value in values]
    assert [delivery.exception(0) for delivery in deliveries] == [None] * 20
    with consumer_of(cluster, large_messages=CHUNKS) as consumer:
        consumer.subscribe([topic])
        found = take(consumer, 20)
    assert sorted(record.value for record in found) == sorted(values)


def test_many_values_of_which_some_are_large(cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic()
    values = [b"1", b"2" * 2500, b"3", b"4" * 5000]
    with Producer(bootstrap_servers=cluster.bootstrap, large_messages=CHUNKS) as producer:
        placed = producer.send_many(topic, values, keys=[b"k"] * 4).result(60)
    with consumer_of(cluster, large_messages=CHUNKS) as consumer:
        consumer.subscribe([topic])
        found = take(consumer, 4)
    assert [record.value for record in found] == values
    assert [where.offset for where in placed] == list(range(10)), "chunks count as records"


def test_an_aborted_transaction_takes_its_chunks_with_it(cluster: Target) -> None:
    topic = topic_factory(cluster.bootstrap)()
    with Producer(
        bootstrap_servers=cluster.bootstrap, transactional_id=topic, large_messages=CHUNKS
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted" * 1000)
        producer.flush()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"committed" * 1000)
    with consumer_of(cluster, large_messages=CHUNKS, isolation_level="read_committed") as consumer:
        consumer.subscribe([topic])
        (record,) = take(consumer, 1)
        assert record.value == b"committed" * 1000
        assert not consumer.poll(0.2)


def interleaved(cluster: Target, topic: str) -> None:
    """Offsets: first of A (0), all of B (1 to 3), a small record (4), the rest of A (5, 6)."""
    a = CHUNKS.encode(topic, b"A" * 2500, [], this_machine())
    b = CHUNKS.encode(topic, b"B" * 2500, [], this_machine())
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for value, headers in [a[0], *b, (b"small", []), *a[1:]]:
            producer.send(topic, value, key=b"k", headers=headers)


def test_a_crash_in_the_middle_reads_the_whole_message_again(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    interleaved(cluster, topic)
    settings = {
        "group.id": uuid.uuid4().hex,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "bootstrap.servers": cluster.bootstrap,
    }
    with Consumer(settings, large_messages=CHUNKS) as consumer:
        consumer.assign([partition])
        found: list[ConsumerRecord] = []
        while not found:
            found += consumer.poll(1.0, max_records=4).records()
        assert [record.value[:1] for record in found] == [b"B"]
        assert consumer.position(partition) == 4
        consumer.commit()
        assert consumer.committed([partition])[partition].offset == 0  # type: ignore[union-attr]
    with Consumer(settings, large_messages=CHUNKS) as consumer:
        consumer.assign([partition])
        found = take(consumer, 3)
        assert [record.value[:1] for record in found] == [b"B", b"s", b"A"]


def test_a_commit_by_hand_does_not_cut_a_message_in_two(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    interleaved(cluster, topic)
    with consumer_of(cluster, large_messages=CHUNKS, enable_auto_commit=False) as consumer:
        consumer.assign([partition])
        b, small, a = take(consumer, 3)
        assert [b.offset, small.offset, a.offset] == [3, 4, 6]
        for wanted, committed in ((3, 0), (4, 0), (5, 0), (6, 0), (7, 7)):
            consumer.commit({partition: OffsetAndMetadata(wanted)})
            found = consumer.committed([partition])[partition]
            assert found is not None
            assert found.offset == committed


def test_a_seek_starts_assembly_anew(cluster: Target, new_topic: NewTopicFactory) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    interleaved(cluster, topic)
    with consumer_of(cluster, large_messages=CHUNKS) as consumer:
        consumer.assign([partition])
        assert len(take(consumer, 3)) == 3
        consumer.seek(partition, 1)
        assert [r.value[:1] for r in take(consumer, 2)] == [b"B", b"s"]


def test_damage_is_reported_between_good_records(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    chunks = CHUNKS.encode(topic, b"A" * 2500, [], this_machine())
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for value, headers in [(b"1", []), chunks[0], chunks[2], (b"2", [])]:
            producer.send(topic, value, headers=headers)
    with consumer_of(cluster, large_messages=CHUNKS) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in take(consumer, 2)] == [b"1", b"2"]
        with pytest.raises(LargeMessageError, match="chunk 1 of 3 is missing") as caught:
            consumer.poll(60.0)
        assert caught.value.offset == 1
        assert not consumer.poll(0.1)


def test_damage_after_a_batch_is_found_again_by_whoever_ends_by_it(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    chunks = CHUNKS.encode(topic, b"A" * 2500, [], this_machine())
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for value, headers in [(b"1", []), chunks[0], chunks[2]]:
            producer.send(topic, value, headers=headers)
    settings = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    for before in ([b"1"], []):
        with Consumer(
            settings,
            bootstrap_servers=cluster.bootstrap,
            large_messages=CHUNKS,
            auto_commit_interval_ms=0,
        ) as consumer:
            consumer.subscribe([topic])
            if before:
                assert [record.value for record in consumer.consume_batch(9, 60.0)] == before
            with pytest.raises(LargeMessageError, match="chunk 1 of 3 is missing"):
                consumer.consume_batch(9, 60.0)


async def test_an_offset_is_made_safe_when_its_commit_is_asked_for(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    partition = TopicPartition(new_topic(), 0)
    async with AsyncProducer(
        bootstrap_servers=cluster.bootstrap, large_messages=CHUNKS
    ) as producer:
        await producer.send(partition.topic, b"A" * 2500)
    async with AsyncConsumer(
        {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"},
        bootstrap_servers=cluster.bootstrap,
        large_messages=CHUNKS,
    ) as consumer:
        consumer.assign([partition])
        assert len(await consumer.consume_batch(1, 60.0)) == 1
        answers: list[object] = []
        consumer.commit_async(
            {partition: OffsetAndMetadata(2)}, lambda _, error: answers.append(error)
        )
        consumer.seek(partition, 3)
        async with asyncio.timeout(60):
            while not answers:
                await consumer.poll(0.1)
        assert answers == [None]
        (committed,) = (await consumer.committed([partition])).values()
        assert committed is not None
        assert committed.offset == 0, "in the middle of the message"


def test_a_large_message_through_a_listener_the_dead_letters_and_back(
    cluster: Target,
    new_topic: NewTopicFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic()
    seen: list[bytes] = []

    def handle(record: ConsumerRecord) -> None:
        seen.append(record.value)
        if record.value == BIG:
            raise ValueError("too much")

    codec = Chunking()
    with Producer(bootstrap_servers=cluster.bootstrap, large_messages=codec) as producer:
        producer.send(topic, BIG, key=b"k")
        producer.send(topic, b"small", key=b"k")
    with Listener(
        topic,
        handle,
        bootstrap_servers=cluster.bootstrap,
        group_id=uuid.uuid4().hex,
        auto_offset_reset="earliest",
        retries=Retries(attempts=1),
        large_messages=codec,
    ):
        eventually(lambda: seen == [BIG, b"small"])
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", cluster.bootstrap)
    moldau = CommandLine(cluster.bootstrap, capfd)
    assert len(moldau("dlq", "redrive", f"{topic}.dlq", "--execute").rows) == 1
    with consumer_of(cluster, large_messages=codec) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in take(consumer, 3)] == [BIG, b"small", BIG]


def test_others_see_an_address(cluster: Target, new_topic: NewTopicFactory, tmp_path: Path) -> None:
    topic = new_topic()
    claims = ClaimCheck(str(tmp_path), threshold=10)
    with Producer(bootstrap_servers=cluster.bootstrap, large_messages=claims) as producer:
        producer.send(topic, b"more than ten bytes").result(60)
    other = OtherConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    other.subscribe([topic])
    messages: list[Message] = []

    def came() -> bool:
        message = other.poll(0.5)
        if message is not None:
            messages.append(message)
        return bool(messages)

    eventually(came)
    other.close()
    headers = dict(messages[-1].headers())
    assert messages[-1].value() == b""
    assert headers["moldau.claim.size"] == b"19"
    path = Path(headers["moldau.claim.address"].decode().removeprefix("file://"))
    assert path.read_bytes() == b"more than ten bytes"


async def test_payloads_are_cleaned_up_when_no_record_needs_them(
    cluster: Target, new_topic: NewTopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    claims = ClaimCheck(str(tmp_path), threshold=10)
    async with AsyncProducer(
        bootstrap_servers=cluster.bootstrap, large_messages=claims
    ) as producer:
        for _ in range(3):
            await producer.send(topic, bytes(100))
            # Payloads are listed by the millisecond; each gets one of its own.
            created = list_payloads(claims)[-1].created_ms
            while time.time() * 1000 <= created + 1:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    claims.storage.put("no-such-topic", b"orphan", this_machine())
    kept = list_payloads(claims, [topic])
    assert len(kept) == 3
    later = max(payload.created_ms for payload in list_payloads(claims)) + YOUNG_MS + 1
    async with Client(cluster.bootstrap) as client:
        admin = client.admin
        assert (await admin.delete_records({TopicPartition(topic, 0): 2}))[0].get() == 2
        found = await unreferenced_payloads(claims, client.cluster, admin)
        assert found == [], "young ones stay"
        found = await unreferenced_payloads(claims, client.cluster, admin, now_ms=later)
        assert sorted(p.topic for p in found) == [topic, topic, "no-such-topic"]
        assert [p for p in found if p.topic == topic] == kept[:2]
        expired = await expired_payloads(claims, admin, now_ms=later)
        assert [p.topic for p in expired] == ["no-such-topic"], "the topic keeps a week"
        short = [ConfigChange("retention.ms", "1000"), ConfigChange("segment.ms", "1000")]
        await admin.alter_configs({ConfigResource(ResourceType.TOPIC, topic): short})
        async with asyncio.timeout(60):  # the broker hears of it in its own time
            expired = []
            while not expired:
                expired = await expired_payloads(claims, admin, topics=[topic], now_ms=later)
        assert expired == kept
    assert delete_payloads(claims.storage, found) == 3
    assert delete_payloads(claims.storage, found) == 0
    assert list_payloads(claims) == kept[2:]


def test_the_command_shows_first_and_deletes_on_demand(
    cluster: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", cluster.bootstrap)
    moldau = CommandLine(cluster.bootstrap, capfd)
    claims = ClaimCheck(str(tmp_path))
    claims.storage.put("no-such-topic", b"young", this_machine())
    old = tmp_path / "no-such-topic" / "0000000001000-old"
    old.write_bytes(b"orphan")
    (tmp_path / "README").write_text("not a payload")
    for mode in ([], ["--unreferenced"]):
        (row,) = moldau("claim-check", "clean-up", str(tmp_path), *mode).rows
        assert row == ["no-such-topic", "1000", "6", f"file://{old}"]
    assert old.exists()
    moldau("claim-check", "clean-up", str(tmp_path), "--execute")
    assert not old.exists()
    assert len(list_payloads(claims)) == 1
    assert (tmp_path / "README").exists()
