"""A start that fails leaves nothing behind."""

from __future__ import annotations

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_network import MemoryAcceptor, MemoryNetwork

from moldau.controller import Controller
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.disk import MemoryDisk


class CountingAcceptor(MemoryAcceptor):
    is_closed = False

    def close(self) -> None:
        super().close()
        self.is_closed = True


class CrowdedNetwork(MemoryNetwork):
    """Where one port is taken."""

    def bind(self, host: str, port: int, **_buffers: int) -> CountingAcceptor:
        if port == 2:
            raise OSError("cannot listen on memory:2")
        acceptor = self.acceptors[port] = CountingAcceptor(port)
        return acceptor


def still_bound(network: MemoryNetwork) -> list[int]:
    return [
        port
        for port, acceptor in network.acceptors.items()
        if not (isinstance(acceptor, CountingAcceptor) and acceptor.is_closed)
    ]


async def test_a_port_that_is_taken_sets_the_others_free() -> None:
    broker = MemoryBroker(
        {
            "listeners": "ONE://memory:1,TWO://memory:2",
            "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
            "inter.broker.listener.name": "ONE",
        }
    )
    broker.network = CrowdedNetwork()
    with pytest.raises(OSError, match="cannot listen"):
        await broker.start()
    await broker.stop()
    assert list(broker.network.acceptors) == [1]
    assert still_bound(broker.network) == []


async def test_a_broker_that_may_not_join_sets_its_ports_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def start(_controller: Controller) -> None:
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)

    monkeypatch.setattr(Controller, "start", start)
    broker = MemoryBroker({"listeners": "PLAINTEXT://memory:1"})
    broker.network = CrowdedNetwork()
    with pytest.raises(KafkaError):
        await broker.start()
    await broker.stop()
    assert list(broker.network.acceptors) == [1]
    assert still_bound(broker.network) == []


async def test_a_member_of_a_cluster_does_not_start_alone() -> None:
    disk = MemoryDisk()
    async with MemoryBroker(disk=disk):
        pass
    disk.write("/data/broker-life.json", b"{}")
    alone = MemoryBroker(disk=disk)
    with pytest.raises(KafkaError, match=r"/data belongs to a broker of a cluster"):
        await alone.start()
    await alone.stop()
    disk.remove("/data/broker-life.json")
    async with MemoryBroker(disk=disk):
        pass
