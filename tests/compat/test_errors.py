"""Bad requests are answered as Apache Kafka answered them: the same error codes and messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.compat import error_answers
from tests.compat.bad_requests import ONE, SOON, TWO
from tests.compat.conftest import make_target
from tests.compat.error_answers import CASES, Answer, kafka_answers, own_answers
from tests.support.batches import Batch
from tests.support.clients.confluent import ConfluentKafka
from tests.support.raw import RawClient
from tests.support.requests import request
from tests.support.target import Target
from tests.support.waiting import eventually

pytestmark = pytest.mark.one_broker
PRODUCER_ID = 4242
NAMES = [case.name for case in CASES]


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("errors")
    target = make_target(request.config, directory, error_answers.SETTINGS)
    target.start()
    yield target
    target.kill()


@pytest.fixture(scope="module")
def answers(broker: Target) -> dict[str, Answer]:
    return error_answers.answers(broker)


@pytest.fixture
def client(broker: Target) -> Iterator[RawClient]:
    connection = RawClient(broker.bootstrap)
    yield connection
    connection.close()


def test_every_request_is_another_and_has_an_answer_of_kafka() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert kafka_answers().keys() == set(NAMES)
    assert own_answers().keys() <= set(NAMES)


def test_what_is_answered_otherwise_is_documented() -> None:
    assert error_answers.section() in error_answers.PAGE.read_text()


@pytest.mark.compat("Error codes", "Protocol")
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_kafka(name: str, broker: Target, answers: dict[str, Answer]) -> None:
    expected, own = kafka_answers()[name], own_answers()
    if name in own and broker.name == "Moldau":
        assert not error_answers.is_as(own[name][0], expected), "it is Kafka's answer after all"
        expected = own[name][0]
    assert error_answers.is_as(answers[name], expected), (answers[name], expected)


def _produce(client: RawClient, batch: Batch) -> tuple[str, int]:
    place = {"index": 0, "records": batch.encode()}
    answer: Any = client.call(
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
def test_sequences_are_checked_as_kafka_does(broker: Target, client: RawClient) -> None:
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
    admin = ConfluentKafka(broker.bootstrap)
    admin.create_topic("sequences", 1)
    eventually(lambda: error_answers.is_led(admin, "sequences"))
    for step, sent, expected in steps:
        assert _produce(client, sent) == expected, step


@pytest.mark.compat("API versions", "Protocol")
def test_advertised_versions_are_those_of_kafka(client: RawClient) -> None:
    served, kafka = error_answers.versions(client), error_answers.kafka_versions()
    assert served
    assert served == {key: kafka[key] for key in served}
