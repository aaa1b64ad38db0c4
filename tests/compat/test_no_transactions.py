"""Producers that want transactions, where there are none: told so at once, not after a time-out."""

from __future__ import annotations

import subprocess

import confluent_kafka
import pytest
from tests.support import java
from tests.support.moldau import Moldau
from tests.support.target import Target

from moldau.client.errors import AuthorizationError
from moldau.client.producer import Producer

LONG_S = 600
"""Longer than any test may take: whoever waits for a coordinator fails."""


@pytest.fixture
def without_transactions(target: Target) -> Target:
    if not isinstance(target, Moldau):
        pytest.skip("this broker has transactions")
    return target


def test_our_producer(without_transactions: Target) -> None:
    with (
        Producer(
            bootstrap_servers=without_transactions.bootstrap,
            transactional_id="t",
            max_block_ms=LONG_S * 1000,
        ) as producer,
        pytest.raises(AuthorizationError, match="does not serve transactions"),
    ):
        producer.init_transactions()


def test_librdkafka(without_transactions: Target) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": without_transactions.bootstrap, "transactional.id": "t"}
    )
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.init_transactions(LONG_S)
    error = raised.value.args[0]
    assert error.fatal()
    assert error.code() == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "does not serve transactions" in error.str()


def test_javas_producer(without_transactions: Target) -> None:
    done = subprocess.run(
        [
            *java.java_command(java.PRODUCER_PERFORMANCE, log_level="off"),
            *("--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1"),
            *("--transactional-id", "t", "--transaction-duration-ms", "100", "--producer-props"),
            f"bootstrap.servers={without_transactions.bootstrap}",
            f"max.block.ms={LONG_S * 1000}",
        ],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert "TransactionalIdAuthorizationException" in done.stderr
