"""Producing while brokers are killed: every record has one fate, one place, and its order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from tests.client.conftest import topic_factory
from tests.client.reading import Stored, read_topic
from tests.support.apache_kafka import ApacheKafkaCluster
from tests.support.process import START_TIMEOUT_S, free_ports
from tests.support.waiting import eventually

from moldau import (
    Delivery,
    DeliveryTimeoutError,
    Producer,
    RecordMetadata,
    TransactionAbortableError,
)
from moldau.client.cluster import Cluster
from moldau.client.coordinators import TRANSACTION_KEY_TYPE, find_coordinator
from moldau.client.settings import CommonSettings
from moldau.testing.broker import MoldauProcess

"""Three JVMs start, one after the other, on a machine that may be busy."""

SECONDS = 120


class Load:
    """Sends numbered records from a thread of its own until it is stopped."""

    def __init__(self, producer: Producer, topic: str, partitions: int) -> None:
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._stop = threading.Event()
        self.calls: list[Delivery] = []
        self.sent: dict[int, list[Delivery]] = {number: [] for number in range(partitions)}
        self._thread = threading.Thread(target=self._run)
        self._acknowledged = threading.Semaphore(0)
        self._thread.start()

    def wait_for_more(self, records: int) -> None:
        """Until so many more are acknowledged or failed."""
        for _ in range(records):
            assert self._acknowledged.acquire(timeout=SECONDS)

    def drain(self) -> None:
        while self._acknowledged.acquire(blocking=False):
            pass

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            partition = number % self._partitions
            place = len(self.sent[partition])
            delivery = self._producer.send(
                self._topic, b"%d" % place, partition=partition, on_delivery=self._done
            )
            self.sent[partition].append(delivery)
            number += 1
            if number % 50 == 0:
                self._stop.wait(0.02)

    def _done(self, delivery: Delivery) -> None:
        self.calls.append(delivery)
        self._acknowledged.release()


def check_all_stored_once_in_order(load: Load, found: dict[int, list[Stored]], topic: str) -> None:
    everything = [delivery for own in load.sent.values() for delivery in own]
    assert len(load.calls) == len(everything)  # each was called back once
    assert set(load.calls) == set(everything)
    for partition, own in load.sent.items():
        values = [record.value for record in found[partition]]
        assert values == [b"%d" % number for number in range(len(own))]
        offsets = {record.value: record.offset for record in found[partition]}
        for number, delivery in enumerate(own):
            placed = delivery.result(0)
            assert isinstance(placed, RecordMetadata)
            assert (placed.topic, placed.partition) == (topic, partition)
            # A repeated batch may be too old for the broker to know its place.
            assert placed.offset in (offsets[b"%d" % number], -1)


def run_load(bootstrap: str, topic: str, partitions: int, disturb: Callable[[Load], None]) -> Load:
    with Producer(
        bootstrap_servers=bootstrap,
        batch_size=2000,
        linger_ms=1,
        request_timeout_ms=10_000,
        reconnect_backoff_max_ms=300,
        retry_backoff_max_ms=300,
    ) as producer:
        load = Load(producer, topic, partitions)
        try:
            load.wait_for_more(500)
            disturb(load)
            load.drain()
            load.wait_for_more(500)
        finally:
            load.stop()
        producer.flush(SECONDS)
    return load


def test_brokers_of_a_kafka_cluster_killed_in_turn(kafka_cluster: ApacheKafkaCluster) -> None:
    topic = topic_factory(kafka_cluster.bootstrap)(partitions=6, replication=3)

    def disturb(load: Load) -> None:
        for node in kafka_cluster.nodes.values():
            node.kill()
            load.drain()
            load.wait_for_more(600)
            node.start()
            load.drain()
            load.wait_for_more(200)

    load = run_load(kafka_cluster.bootstrap, topic, 6, disturb)
    check_all_stored_once_in_order(load, read_topic(kafka_cluster.bootstrap, topic), topic)


async def coordinator_of(bootstrap: str, transactional_id: str) -> int:
    cluster = Cluster(CommonSettings(bootstrap_servers=bootstrap))
    try:
        return (await find_coordinator(cluster, transactional_id, TRANSACTION_KEY_TYPE)).id
    finally:
        await cluster.close()


def test_transactions_while_their_coordinator_dies(kafka_cluster: ApacheKafkaCluster) -> None:
    topic = topic_factory(kafka_cluster.bootstrap)(partitions=3, replication=3)
    transactional_id = "while a broker dies"
    node = kafka_cluster.nodes[
        asyncio.run(coordinator_of(kafka_cluster.bootstrap, transactional_id))
    ]
    committed = []
    with Producer(
        bootstrap_servers=kafka_cluster.bootstrap,
        transactional_id=transactional_id,
        request_timeout_ms=10_000,
        reconnect_backoff_max_ms=300,
    ) as producer:
        producer.init_transactions()
        for number in range(40):
            if number == 10:
                node.kill()
            if number == 30:
                node.start()
            try:
                with producer.transaction():
                    for partition in range(3):
                        producer.send(topic, b"%02d" % number, partition=partition)
            except TransactionAbortableError:
                continue  # it is aborted, and the next one goes on
            committed.append(b"%02d" % number)
    found = read_topic(kafka_cluster.bootstrap, topic, isolation="read_committed")
    assert {
        p: [record.value for record in records] for p, records in found.items()
    } == dict.fromkeys(range(3), committed)
    assert len(committed) >= 30


def test_a_moldau_broker_killed_and_started_again(own_moldau: MoldauProcess) -> None:
    own_moldau.create_topic("t", partitions=3)

    def disturb(load: Load) -> None:
        for _ in range(3):
            own_moldau.kill()
            own_moldau.start()
            load.drain()
            load.wait_for_more(300)

    load = run_load(own_moldau.bootstrap_servers, "t", 3, disturb)
    check_all_stored_once_in_order(load, read_topic(own_moldau.bootstrap_servers, "t"), "t")


def test_records_fail_when_no_broker_comes_back(own_moldau: MoldauProcess) -> None:
    own_moldau.create_topic("t")
    with Producer(
        bootstrap_servers=own_moldau.bootstrap_servers,
        request_timeout_ms=500,
        delivery_timeout_ms=1000,
        linger_ms=0,
    ) as producer:
        # A busy machine may take longer for that than the second that this producer has.
        eventually(lambda: producer.send("t", b"first").exception(SECONDS) is None)
        own_moldau.kill()
        calls: list[Delivery] = []
        lost = [producer.send("t", b"lost", on_delivery=calls.append) for _ in range(10)]
        errors = [delivery.exception(SECONDS) for delivery in lost]
        assert {type(error) for error in errors} == {DeliveryTimeoutError}
        assert "within delivery.timeout.ms (1 s)" in str(errors[0])
        assert calls == lost
        # The numbers of the lost records are missing; what follows is stored all the same.
        own_moldau.start()
        eventually(lambda: producer.send("t", b"second").exception(SECONDS) is None)
    values = [record.value for record in read_topic(own_moldau.bootstrap_servers, "t")[0]]
    assert list(dict.fromkeys(values)) == [b"first", b"second"]


def test_a_whole_cluster_on_another_address_is_found_through_bootstrap(tmp_path: Path) -> None:
    """All known brokers are gone; one of the bootstrap servers that was never up before answers."""
    ports = free_ports(2)
    directory = tmp_path / "moldau"
    with MoldauProcess(directory, port=ports[0], start_timeout=START_TIMEOUT_S) as broker:
        broker.create_topic("t")
        producer = Producer(
            bootstrap_servers=[f"127.0.0.1:{port}" for port in ports],
            reconnect_backoff_max_ms=200,
        )
        assert producer.send("t", b"first").result(SECONDS).offset == 0
        broker.terminate()
    with MoldauProcess(directory, port=ports[1], start_timeout=START_TIMEOUT_S) as broker, producer:
        assert producer.send("t", b"second").result(SECONDS).offset == 1
