"""The same bad request to the broker under test and to Apache Kafka: the same error code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from tests.compat.bad_requests import CASES, ONE, RECORDS_IN_PLAIN, SOON, TOPICS, TWO, Case
from tests.compat.cluster_requests import QUESTIONS, Question
from tests.support.apache_kafka import ApacheKafka
from tests.support.batches import Batch
from tests.support.clients.base import ClientError, Sample
from tests.support.clients.confluent import ConfluentKafka
from tests.support.raw import RawClient
from tests.support.requests import error_names, request
from tests.support.target import Target
from tests.support.waiting import eventually

PRODUCER_ID = 4242
TARGET = "broker under test"
ORACLE = "Apache Kafka"


@pytest.fixture(scope="module")
def bootstraps(
    target: Target, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The broker under test and a Kafka, with the same topics in both."""
    oracle = ApacheKafka(tmp_path_factory.mktemp("oracle"))
    oracle.start()
    try:
        for broker in (target, oracle):
            _prepare(broker.bootstrap)
        yield {TARGET: target.bootstrap, ORACLE: oracle.bootstrap}
    finally:
        oracle.kill()


@pytest.fixture
def brokers(bootstraps: dict[str, str]) -> Iterator[dict[str, RawClient]]:
    """Connections of the test's own: one that a broker closes is not missed by other tests."""
    connections = {name: RawClient(bootstrap) for name, bootstrap in bootstraps.items()}
    yield connections
    for connection in connections.values():
        connection.close()


def _prepare(bootstrap: str) -> None:
    client = ConfluentKafka(bootstrap)
    for topic, configs in TOPICS.items():
        client.create_topic(topic, 1, configs)
    client.create_topic("sequences", 1)
    # Kafka's controller answers before its broker has made them.
    eventually(lambda: all(is_led(client, topic) for topic in (*TOPICS, "sequences")))
    client.write("plain", [Sample(b"key", b"value")] * RECORDS_IN_PLAIN, "none")


def is_led(client: ConfluentKafka, topic: str) -> bool:
    try:
        return client.latest_offset(topic) == 0
    except ClientError:
        return False


@pytest.mark.compat("Error codes", "Protocol")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error_codes_are_those_of_kafka(case: Case, brokers: dict[str, RawClient]) -> None:
    expected = error_names(brokers[ORACLE].call(case.make()))
    assert expected[-1] == case.error
    assert error_names(brokers[TARGET].call(case.make())) == expected


@pytest.mark.compat("Answers about the cluster", "Protocol")
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_a_broker_that_is_alone_answers_as_kafka(
    question: Question, brokers: dict[str, RawClient]
) -> None:
    answers = {name: _normal(broker.call(question.make())) for name, broker in brokers.items()}
    assert answers[TARGET] == answers[ORACLE]


def _normal(message: Any) -> Any:
    """Kafka sometimes says nothing in an empty text, where it could say nothing."""
    if isinstance(message, tuple):
        return tuple(map(_normal, message))
    if not is_dataclass(message) or isinstance(message, type):
        return message
    values = {each.name: _normal(getattr(message, each.name)) for each in fields(message)}
    if not values.get("error_message", "x"):
        values["error_message"] = None
    return values


def _produce(broker: RawClient, batch: Batch) -> tuple[str, int]:
    place = {"index": 0, "records": batch.encode()}
    answer: Any = broker.call(
        request(
            "produce",
            12,
            transactional_id=None,
            acks=-1,
            timeout=SOON,
            topic_data=[{"name": "sequences", "partition_data": [place]}],
        )
    )
    (partition,) = answer.responses[0].partition_responses
    return partition.error_code.name.upper(), partition.base_offset


@pytest.mark.compat("Idempotent producers", "Protocol")
def test_sequences_are_checked_as_kafka_does(brokers: dict[str, RawClient]) -> None:
    def batch(sequence: int, epoch: int = 1, records: Any = ONE) -> Batch:
        return Batch(records, producer_id=PRODUCER_ID, producer_epoch=epoch, base_sequence=sequence)

    steps = [
        ("first", batch(0), ("NONE", 0)),
        ("second", batch(1, records=TWO), ("NONE", 1)),
        ("the second again", batch(1, records=TWO), ("NONE", 1)),
        ("the first again", batch(0), ("NONE", 0)),
        ("a gap", batch(9), ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)),
        ("part of an earlier one", batch(2), ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)),
        ("third", batch(3), ("NONE", 3)),
        ("fourth", batch(4), ("NONE", 4)),
        ("fifth", batch(5), ("NONE", 5)),
        ("sixth", batch(6), ("NONE", 6)),
        ("seventh", batch(7), ("NONE", 7)),
        ("older than the five remembered", batch(0), ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)),
        ("the oldest that is remembered", batch(3), ("NONE", 3)),
        ("an older epoch", batch(8, epoch=0), ("INVALID_PRODUCER_EPOCH", -1)),
        ("a new epoch that goes on", batch(8, epoch=2), ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)),
        ("a new epoch from the start", batch(0, epoch=2), ("NONE", 8)),
        ("the old epoch again", batch(8, epoch=1), ("INVALID_PRODUCER_EPOCH", -1)),
    ]
    for name, broker in brokers.items():
        for step, sent, expected in steps:
            assert _produce(broker, sent) == expected, f"{name}: {step}"


@pytest.mark.compat("API versions", "Protocol")
def test_advertised_versions_are_those_of_kafka(brokers: dict[str, RawClient]) -> None:
    ranges = {}
    for name, broker in brokers.items():
        answer: Any = broker.call(
            request(
                "api_versions", 4, client_software_name="moldau-tests", client_software_version="1"
            )
        )
        ranges[name] = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    served = ranges[TARGET]
    assert served
    assert served == {key: ranges[ORACLE][key] for key in served}
