"""A broker that is alone says of its cluster what Apache Kafka says, to the letter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from tests.compat.bad_requests import Case
from tests.compat.cluster_requests import QUESTIONS
from tests.compat.error_answers import prepare
from tests.support.apache_kafka import ApacheKafka
from tests.support.raw import RawClient
from tests.support.target import Target

TARGET = "broker under test"
ORACLE = "Apache Kafka"


@pytest.fixture(scope="module")
def bootstraps(
    target: Target, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The broker under test and a Kafka, with the same topics in both."""
    with ApacheKafka(tmp_path_factory.mktemp("oracle")) as oracle:
        for broker in (target, oracle):
            prepare(broker.bootstrap)
        yield {TARGET: target.bootstrap, ORACLE: oracle.bootstrap}


@pytest.fixture
def brokers(bootstraps: dict[str, str]) -> Iterator[dict[str, RawClient]]:
    """Connections of the test's own: one that a broker closes is not missed by other tests."""
    connections = {name: RawClient(bootstrap) for name, bootstrap in bootstraps.items()}
    yield connections
    for connection in connections.values():
        connection.close()


@pytest.mark.compat("Answers about the cluster", "Protocol")
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_a_broker_that_is_alone_answers_as_kafka(
    question: Case, brokers: dict[str, RawClient]
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
