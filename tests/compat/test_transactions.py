"""Exactly once, with clients of both protocols: confluent-kafka announces partitions itself, Java's
producer leaves it to the leaders (KIP-890).
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support import java
from tests.support.target import Target
from tests.support.waiting import eventually

SECONDS = 120
RECORDS = 500
SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}


def new_topics(target: Target, *names: str) -> list[str]:
    unique = [f"{name}-{uuid.uuid4().hex[:8]}" for name in names]
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    for made in admin.create_topics([NewTopic(name, 2, 1) for name in unique]).values():
        made.result(SECONDS)
    return unique


def fill(target: Target, topic: str) -> list[bytes]:
    values = [b"%06d" % number for number in range(RECORDS)]
    producer = Producer({"bootstrap.servers": target.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(SECONDS) == 0
    return values


def committed(target: Target, topic: str) -> list[bytes]:
    """What is committed up to the present ends, in the order of values."""
    settings = {
        "bootstrap.servers": target.bootstrap,
        "group.id": "readers",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, index, 0) for index in (0, 1)])
    values: list[bytes] = []
    at_end: set[int] = set()
    while len(at_end) < 2:
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error() is None:
            values.append(message.value())
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF
            at_end.add(message.partition())
    consumer.close()
    return sorted(values)


def copy_some(consumer: Consumer, producer: Producer, output: str, *, commit: bool) -> int:
    """One transaction: what comes next is written to ``output``, and its offsets with it."""
    messages = [m for m in consumer.consume(20, timeout=5) if m.error() is None]
    if not messages:
        return 0
    producer.begin_transaction()
    for message in messages:
        producer.produce(output, message.value(), partition=message.partition())
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
    )
    if commit:
        producer.commit_transaction(SECONDS)
        return len(messages)
    producer.abort_transaction(SECONDS)
    for partition in consumer.committed(consumer.assignment(), SECONDS):
        partition.offset = max(partition.offset, 0)
        consumer.seek(partition)
    return 0


def copier(target: Target, source: str, transactional_id: str) -> tuple[Consumer, Producer]:
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": f"of-{source}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer = Producer(
        {"bootstrap.servers": target.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(SECONDS)
    return consumer, producer


def test_librdkafka_copies_exactly_once_over_aborts_and_restarts(
    new_target: Callable[[dict[str, str]], Target],
) -> None:
    target = new_target(SETTINGS)
    source, output = new_topics(target, "in", "out")
    values = fill(target, source)
    consumer, producer = copier(target, source, f"copy-{source}")
    copied = turn = 0
    while copied < RECORDS // 2:
        turn += 1
        copied += copy_some(consumer, producer, output, commit=turn % 3 != 0)
    # Killed in the middle of a transaction: its records are there, and nobody ends it.
    producer.begin_transaction()
    producer.produce(output, b"lost", partition=0)
    producer.flush(SECONDS)
    target.kill()
    del consumer, producer
    target.start()
    consumer, producer = copier(target, source, f"copy-{source}")
    while copied < RECORDS:
        copied += copy_some(consumer, producer, output, commit=True)
    consumer.close()
    assert committed(target, output) == values


def test_a_zombie_is_fenced(target: Target) -> None:
    (topic,) = new_topics(target, "fenced")
    settings = {"bootstrap.servers": target.bootstrap, "transactional.id": topic}
    zombie = Producer(settings)
    zombie.init_transactions(SECONDS)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    zombie.flush(SECONDS)
    heir = Producer(settings)
    heir.init_transactions(SECONDS)
    with pytest.raises(KafkaException) as raised:
        zombie.commit_transaction(SECONDS)
    assert raised.value.args[0].fatal()
    heir.begin_transaction()
    heir.produce(topic, b"heir", partition=0)
    heir.commit_transaction(SECONDS)
    assert committed(target, topic) == [b"heir"]


def test_what_takes_too_long_is_aborted(
    new_target: Callable[[dict[str, str]], Target],
) -> None:
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    target = new_target({**SETTINGS, interval: "200"})
    (topic,) = new_topics(target, "slow")
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "transactional.id": topic,
            "transaction.timeout.ms": 1000,
        }
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"slow", partition=0)
    producer.flush(SECONDS)
    plain = Producer({"bootstrap.servers": target.bootstrap})
    plain.produce(topic, b"behind", partition=0)
    plain.flush(SECONDS)
    eventually(lambda: committed(target, topic) == [b"behind"])


@pytest.mark.skipif(not java.available(), reason="Java is not installed")
def test_javas_copier_copies_exactly_once(target: Target) -> None:
    source, output = new_topics(target, "java-in", "java-out")
    values = fill(target, source)
    for partition in (0, 1):
        subprocess.run(
            [
                *java.java_command(java.MESSAGE_COPIER, log_level="off"),
                *("--broker-list", target.bootstrap, "--transactional-id", f"{source}-{partition}"),
                *("--input-topic", source, "--input-partition", str(partition)),
                *("--output-topic", output, "--consumer-group", f"g-{source}"),
                *("--transaction-size", "50", "--max-messages", str(RECORDS // 2)),
                "--enable-random-aborts",
            ],
            capture_output=True,
            text=True,
            timeout=java.TOOL_TIMEOUT_S,
            check=True,
        )
    assert committed(target, output) == values


@pytest.mark.skipif(not java.available(), reason="Java is not installed")
def test_kafkas_command_lists_and_describes(target: Target) -> None:
    (topic,) = new_topics(target, "described")
    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(SECONDS)

    def command(*arguments: str) -> str:
        where = ("--bootstrap-server", target.bootstrap)
        return java.run_tool(java.TRANSACTIONS, *where, *arguments).decode()

    (listed,) = [line for line in command("list").splitlines() if line.startswith(topic)]
    assert "Ongoing" in listed
    described = command("describe", "--transactional-id", topic)
    assert f"{topic}-0" in described
    assert "Ongoing" in described
    producers = command("describe-producers", "--topic", topic, "--partition", "0")
    assert len(producers.splitlines()) == 2
    producer.abort_transaction(SECONDS)
    eventually(lambda: "CompleteAbort" in command("describe", "--transactional-id", topic))
