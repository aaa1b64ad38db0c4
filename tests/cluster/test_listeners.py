"""Listeners of a broker process, opened and closed while clients use it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.clients.base import Sample
from tests.support.clients.confluent import ConfluentKafka
from tests.support.process import free_ports

from moldau.client.admin import ConfigChange, ConfigResource, raise_first_error
from moldau.client.client import Client
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.config.altering.operations import AlterOperation
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.broker import MoldauProcess

HOST = "127.0.0.1"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MoldauProcess]:
    with MoldauProcess(tmp_path, overrides=SETTINGS) as broker:
        yield broker


@pytest.fixture
async def client(broker: MoldauProcess) -> AsyncIterator[Client]:
    async with Client(broker.bootstrap_servers) as client:
        yield client


async def alter(client: Client, **settings: str | None) -> None:
    """None deletes a setting."""
    changes = [
        ConfigChange(
            name.replace("_", "."),
            value,
            AlterOperation.DELETE if value is None else AlterOperation.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, "1")
    raise_first_error(await client.admin.alter_configs({resource: changes}))


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Where a client is sent that comes in by this address."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30)
    return [(node.host, node.port) for node in metadata.brokers.values()]


def can_connect(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=30).close()
    except ConnectionRefusedError:
        return False
    return True


async def test_clients_use_a_listener_that_was_opened_while_the_broker_runs(
    broker: MoldauProcess, client: Client
) -> None:
    (port,) = free_ports(1)
    home, bootstrap = f"PLAINTEXT://{broker.bootstrap_servers}", f"{HOST}:{port}"
    broker.create_topic("t")
    await alter(client, listeners=f"{home},EXTRA://{bootstrap}")
    assert await asyncio.to_thread(addresses, bootstrap) == [(HOST, port)]
    assert await asyncio.to_thread(addresses, broker.bootstrap_servers) == [(HOST, broker.port)]
    outside = ConfluentKafka(bootstrap)
    await asyncio.to_thread(outside.write, "t", [Sample(b"k", b"one")], "none")
    async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send("t", b"two")
    async with AsyncConsumer(
        bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["t"])
        values: list[bytes | None] = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == 2:
                break
    assert values == [b"one", b"two"]
    outside.close()

    broker.kill()
    broker.start()  # with its old file
    assert await asyncio.to_thread(addresses, bootstrap) == [(HOST, port)]

    await alter(client, listeners=None)
    assert not can_connect(port)
    assert await asyncio.to_thread(addresses, broker.bootstrap_servers) == [(HOST, broker.port)]


async def test_a_port_of_somebody_else_refuses_the_change(
    broker: MoldauProcess, client: Client
) -> None:
    (port,) = free_ports(1)
    home = f"PLAINTEXT://{broker.bootstrap_servers}"
    with socket.create_server((HOST, 0)) as taken:
        other = taken.getsockname()[1]
        with pytest.raises(KafkaError) as caught:
            await alter(client, listeners=f"{home},EXTRA://{HOST}:{port},MORE://{HOST}:{other}")
        assert "no protocol is known for the listener MORE" in caught.value.message
        with pytest.raises(KafkaError) as caught:
            await alter(
                client,
                listeners=f"{home},EXTRA://{HOST}:{port},MORE://{HOST}:{other}",
                listener_security_protocol_map="PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,MORE:PLAINTEXT",
            )
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert f"cannot listen on {HOST}:{other}: Address already in use" in caught.value.message
    assert not can_connect(port)
    (described,) = await client.admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])
    entries = {entry.name: entry.value for entry in described.get()}
    assert entries["listeners"] == f"PLAINTEXT://{HOST}:0"
    assert await asyncio.to_thread(addresses, broker.bootstrap_servers) == [(HOST, broker.port)]
