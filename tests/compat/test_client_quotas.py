"""Client quotas: set by Kafka's own tool, felt by a client that others wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, ThrottleEvent
from tests.support import java
from tests.support.target import Target

PATIENCE_S = 60.0
CLIENT = "quota-tests"


def configs(target: Target, *arguments: str) -> list[str]:
    """What ``kafka-configs.sh`` prints."""
    printed = java.run_tool(java.CONFIGS, "--bootstrap-server", target.bootstrap, *arguments)
    return printed.decode().splitlines()


@pytest.fixture
def quota(target: Target) -> Iterator[str]:
    entity = ("--entity-type", "clients", "--entity-name", CLIENT)
    configs(target, "--alter", *entity, "--add-config", "producer_byte_rate=10000")
    described = ""
    deadline = time.monotonic() + PATIENCE_S
    while not described and time.monotonic() < deadline:
        # Kafka's broker learns of a change after its controller has answered.
        described = "\n".join(configs(target, "--describe", *entity))
    yield described
    configs(target, "--alter", *entity, "--delete-config", "producer_byte_rate")


@pytest.mark.compat("ConfigCommand", "Kafka's tools")
def test_a_producer_is_told_to_hold_back(target: Target, quota: str) -> None:
    assert quota == (f"Quota configs for client-id '{CLIENT}' are producer_byte_rate=10000.0")
    events: list[ThrottleEvent] = []
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "client.id": CLIENT,
            "throttle_cb": events.append,
            "linger.ms": 0,
        }
    )
    deadline = time.monotonic() + PATIENCE_S
    while not events and time.monotonic() < deadline:
        producer.produce("quota-tests", bytes(60_000))
        producer.flush(PATIENCE_S)
    assert events
    assert events[0].throttle_time > 0
