"""The clients of the compatibility tests, and which of them do what."""

from __future__ import annotations

from tests.support.clients.aiokafka import AioKafka
from tests.support.clients.base import Client
from tests.support.clients.confluent import ConfluentKafka
from tests.support.clients.java import JavaClient
from tests.support.clients.kafka_python import KafkaPython
from tests.support.clients.kafkajs import KafkaJs
from tests.support.clients.kcat import Kcat

KINDS: tuple[type[Client], ...] = (
    ConfluentKafka,
    KafkaPython,
    AioKafka,
    JavaClient,
    KafkaJs,
    Kcat,
)


def offering(*operations: str) -> list[type[Client]]:
    """The clients that have all of these calls."""
    return [kind for kind in KINDS if all(kind.offers(operation) for operation in operations)]


WRITERS = offering("write")
READERS = offering("read")
