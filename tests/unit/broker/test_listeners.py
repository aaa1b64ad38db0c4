"""Listeners that come and go with the settings of a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.memory_broker import PORT, MemoryBroker, MemoryWriter, NoLimits
from tests.support.memory_network import MemoryAcceptor, MemoryNetwork
from tests.support.wire import WireClient
from tests.unit.broker.harness import lose_controller

from moldau.broker.listeners import room_for_connections
from moldau.controller import ConfigResult
from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

BROKER = 4
SET, DELETE = 0, 1
TAKEN = 7
DONE = (ErrorCode.NONE, "")
HOME = f"PLAINTEXT://memory:{PORT}"
EXTRA = f"{HOME},EXTRA://memory:9"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,OTHER:PLAINTEXT"


class PortAcceptor(MemoryAcceptor):
    def __init__(self, network: PortNetwork, port: int) -> None:
        super().__init__(port)
        self._network = network

    def close(self) -> None:
        super().close()
        self._network.acceptors.pop(self.port, None)


class PortNetwork(MemoryNetwork):
    """Each port can be bound once, and one belongs to somebody else."""

    def bind(self, host: str, port: int, **_buffers: int) -> PortAcceptor:
        if port == TAKEN or port in self.acceptors:
            raise OSError(98, f"cannot listen on {host}:{port}: it is taken")
        port = port or 40_000 + len(self.acceptors)
        acceptor = self.acceptors[port] = PortAcceptor(self, port)
        return acceptor


class Broker(MemoryBroker):
    def __init__(self, **settings: str) -> None:
        super().__init__({"listener.security.protocol.map": PROTOCOLS, **settings})
        self.network: PortNetwork = PortNetwork()

    @property
    def ports(self) -> list[int]:
        return sorted(self.network.acceptors)

    async def connect_to(self, port: int) -> WireClient:
        transport = self.network.acceptors[port].connect()
        writer: Any = MemoryWriter(transport)
        return WireClient(transport.stream, writer)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker() as broker:
        yield broker


@pytest.fixture
async def client(broker: Broker) -> WireClient:
    return await broker.connect()


async def alter(
    client: WireClient, *, only: bool = False, **settings: str | None
) -> tuple[ErrorCode, str]:
    """Code and message; None deletes a setting."""
    changes = [
        {
            "name": name.replace("_", "."),
            "config_operation": DELETE if value is None else SET,
            "value": value,
        }
        for name, value in settings.items()
    ]
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": changes}
    answer = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=only
    )
    (response,) = answer.responses
    return error_from(response.error_code), response.error_message or ""


async def nodes(client: WireClient) -> list[tuple[str, int]]:
    answer = await client.call(ApiKey.METADATA, topics=[])
    return [(node.host, node.port) for node in answer.brokers]


async def registered(broker: Broker) -> list[str]:
    controller: Any = broker.parts.controller
    registration = await controller._controller.registration_of(1)
    return [str(endpoint) for endpoint in registration.endpoints]


async def test_a_listener_is_opened_advertised_and_closed_again(
    broker: Broker, client: WireClient
) -> None:
    assert await alter(client, listeners=EXTRA) == DONE
    assert broker.ports == [9, PORT]
    assert broker.server.addresses == [f"memory:{PORT}", "memory:9"]
    guest = await broker.connect_to(9)
    assert await nodes(guest) == [("memory", 9)]
    assert await nodes(client) == [("memory", PORT)]
    assert await registered(broker) == [HOME, "EXTRA://memory:9"]
    assert await alter(client, listeners=None) == DONE
    assert broker.ports == [PORT]
    assert await guest.wait_closed_by_peer() == b""
    assert await registered(broker) == [HOME]


async def test_other_brokers_and_coordinators_are_found_where_they_are_now(
    broker: Broker, client: WireClient
) -> None:
    await alter(client, listeners=f"{HOME},EXTRA://memory:0")
    port = next(port for port in broker.ports if port != PORT)
    guest = await broker.connect_to(port)
    described = await guest.call(ApiKey.DESCRIBE_CLUSTER)
    assert [(node.host, node.port) for node in described.brokers] == [("memory", port)]
    found = await guest.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=["g"])
    assert [(one.host, one.port) for one in found.coordinators] == [("memory", port)]


async def test_who_asks_through_a_listener_that_goes_is_answered_first(broker: Broker) -> None:
    await alter(await broker.connect(), listeners=EXTRA)
    guest = await broker.connect_to(9)
    assert await alter(guest, listeners=HOME) == DONE
    assert await guest.wait_closed_by_peer() == b""


async def test_nobody_waits_for_ever_on_a_listener_that_goes(broker: Broker) -> None:
    client = await broker.connect()
    await client.create_topic("t")
    await alter(client, listeners=EXTRA)
    guest = await broker.connect_to(9)
    guest.send_fetch({"t": {0: 0}}, max_wait_ms=600_000, min_bytes=1)
    await broker.settle()
    assert await alter(client, listeners=HOME) == DONE
    await broker.settle()
    broker.clock.advance(5)
    assert await guest.wait_closed_by_peer() == b""


async def test_a_port_that_cannot_be_had_changes_nothing(
    broker: Broker, client: WireClient
) -> None:
    code, message = await alter(client, listeners=f"{EXTRA},OTHER://memory:{TAKEN}")
    assert code is ErrorCode.INVALID_REQUEST
    assert message == "The listeners are not changed: cannot listen on memory:7: it is taken"
    await broker.settle()
    assert broker.ports == [PORT]
    assert await registered(broker) == [HOME]
    assert "listeners" not in broker.parts.config.broker_dynamic
    assert await nodes(client) == [("memory", PORT)]


async def test_a_change_that_is_only_tried_opens_nothing(
    broker: Broker, client: WireClient
) -> None:
    assert await alter(client, only=True, listeners=EXTRA) == DONE
    assert broker.ports == [PORT]


@pytest.mark.parametrize("raises", [True, False])
async def test_what_the_controller_does_not_store_is_closed_again(
    broker: Broker, client: WireClient, raises: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[list[int]] = []

    class Refusing:
        async def alter_configs(self, *_: object, **__: object) -> list[ConfigResult]:
            opened.append(broker.ports)
            return [ConfigResult(error=ErrorCode.POLICY_VIOLATION, message="no")]

    if raises:
        lose_controller(broker)
    else:
        monkeypatch.setattr(broker.parts, "controller", Refusing())
    expected = ErrorCode.NOT_CONTROLLER if raises else ErrorCode.POLICY_VIOLATION
    assert (await alter(client, listeners=EXTRA))[0] is expected
    assert opened == ([] if raises else [[9, PORT]])
    assert broker.ports == [PORT]


async def test_other_settings_that_come_into_force_close_nothing_that_is_being_opened(
    broker: Broker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = broker.parts.controller

    class Slow:
        async def alter_configs(self, *asked: Any, **how: Any) -> Any:
            broker.parts.configs.update({}, {"": {"log.retention.ms": "5"}})
            assert broker.ports == [PORT, 40_001]
            return await controller.alter_configs(*asked, **how)

    monkeypatch.setattr(broker.parts, "controller", Slow())
    assert await alter(client, listeners=f"{HOME},EXTRA://memory:0") == DONE
    assert broker.ports == [PORT, 40_001]
    assert await nodes(await broker.connect_to(40_001)) == [("memory", 40_001)]


async def test_changes_at_the_same_time_come_one_after_another(
    broker: Broker, client: WireClient
) -> None:
    friend = await broker.connect()
    one, other = await asyncio.gather(
        alter(client, listeners=EXTRA), alter(friend, listeners=f"{HOME},OTHER://memory:10")
    )
    assert one == other == DONE
    assert broker.ports == [10, PORT]
    assert await registered(broker) == [HOME, "OTHER://memory:10"]


async def test_a_listener_moves_to_another_port_and_keeps_any(
    broker: Broker, client: WireClient
) -> None:
    assert await alter(client, listeners="PLAINTEXT://memory:0") == DONE  # as good as any
    assert broker.ports == [PORT]
    assert await alter(client, listeners="PLAINTEXT://memory:11") == DONE
    assert broker.ports == [11]
    assert await client.wait_closed_by_peer() == b""
    guest = await broker.connect_to(11)
    assert await nodes(guest) == [("memory", 11)]
    assert await registered(broker) == ["PLAINTEXT://memory:11"]


async def test_what_is_advertised_can_be_changed_alone(broker: Broker, client: WireClient) -> None:
    assert await alter(client, advertised_listeners="PLAINTEXT://outside:19092") == DONE
    assert broker.ports == [PORT]
    assert await nodes(client) == [("outside", 19092)]
    assert await alter(client, advertised_listeners=None) == DONE
    assert await nodes(client) == [("memory", PORT)]


async def test_a_listener_that_is_not_advertised_tells_of_no_broker(
    broker: Broker, client: WireClient
) -> None:
    await alter(client, advertised_listeners=HOME)
    assert await alter(client, listeners=EXTRA) == DONE
    assert await nodes(await broker.connect_to(9)) == []
    assert await nodes(client) == [("memory", PORT)]


async def test_changes_survive_a_restart(broker: Broker, client: WireClient) -> None:
    await alter(client, listeners=EXTRA, max_connections="7")
    await broker.restart()
    assert broker.ports == [9, PORT]
    assert await registered(broker) == [HOME, "EXTRA://memory:9"]
    assert await nodes(await broker.connect_to(9)) == [("memory", 9)]
    assert broker.parts.config.max_connections == 7


async def test_stored_listeners_that_do_not_hold_any_more_give_way_to_the_file(
    broker: Broker, client: WireClient
) -> None:
    await alter(client, listeners="PLAINTEXT://memory:12,EXTRA://memory:9")
    del broker.settings["listener.security.protocol.map"]
    await broker.restart()
    assert broker.ports == [PORT]


async def test_a_limit_of_one_listener_holds_at_once(broker: Broker, client: WireClient) -> None:
    await alter(client, listeners=EXTRA, listener_name_extra_max_connections="1")
    first = await broker.connect_to(9)
    with pytest.raises(ConnectionRefusedError):
        await broker.connect_to(9)
    await broker.connect()
    assert await alter(client, listener_name_extra_max_connections="3") == DONE
    await broker.connect_to(9)
    assert await nodes(first) == [("memory", 9)]


async def test_settings_that_come_into_force_unprepared_are_obeyed_all_the_same(
    broker: Broker, client: WireClient
) -> None:
    broker.parts.configs.update({}, {"1": {"listeners": EXTRA}})
    await broker.settle()
    assert broker.ports == [9, PORT]
    assert (await (await broker.connect_to(9)).call(ApiKey.DESCRIBE_CLUSTER)).error_code == 0


async def test_a_port_that_cannot_be_had_then_is_said_in_the_log(
    broker: Broker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    broker.parts.configs.update({}, {"1": {"listeners": f"{HOME},EXTRA://memory:{TAKEN}"}})
    await broker.settle()
    assert broker.ports == [PORT]
    assert "not all of listeners is open: cannot listen on memory:7: it is taken" in caplog.text
    assert await nodes(client) == [("memory", PORT)]


@pytest.mark.parametrize(
    ("open_files", "connections"),
    [(16, 8), (256, 128), (1024, 512), (2048, 1024), (4096, 3072), (1 << 20, 786_432)],
)
def test_connections_leave_descriptors_for_files(open_files: int, connections: int) -> None:
    assert room_for_connections(open_files) == connections


async def test_no_setting_lets_connections_take_the_descriptors_of_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(NoLimits, "raise_open_files", lambda _: 256)
    async with MemoryBroker({"max.connections": "200"}) as broker:
        assert "holds 128 connections at most" in caplog.text
        quotas = broker.parts.listeners._quotas
        assert quotas.settings.broker.max_connections == 128
        client = await broker.connect()
        assert await alter(client, max_connections="20") == DONE
        assert quotas.settings.broker.max_connections == 20
        assert await alter(client, max_connections="1000") == DONE
        assert quotas.settings.broker.max_connections == 128
