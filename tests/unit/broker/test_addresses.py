"""What clients are told when a listener is open on every interface."""

from __future__ import annotations

import asyncio
import socket

import pytest

from moldau.broker import addresses
from moldau.broker.addresses import LOOPBACK, advertise, reachable_host
from moldau.config.values.endpoints import Endpoint

OURS = (socket.AF_INET, socket.SOCK_STREAM, 0, "", (LOOPBACK, 0))
# TEST-NET-3: never an address of this machine.
SOMEBODY_ELSES = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("203.0.113.7", 0))


def resolve_to(monkeypatch: pytest.MonkeyPatch, found: list[object] | Exception) -> None:
    async def getaddrinfo(*_args: object, **_kwargs: object) -> list[object]:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "gethostname", lambda: "some-machine")


async def test_the_host_name_is_told_if_it_leads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, [SOMEBODY_ELSES, OURS])
    assert await reachable_host() == "some-machine"


@pytest.mark.parametrize("found", [[], [SOMEBODY_ELSES], OSError("no such name")], ids=repr)
async def test_a_host_name_that_leads_nowhere_or_elsewhere_is_not_told(
    monkeypatch: pytest.MonkeyPatch, found: list[object] | Exception
) -> None:
    resolve_to(monkeypatch, found)
    host = await reachable_host()
    assert host != "some-machine"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))  # an address of this machine, whichever it has


async def test_without_a_network_clients_of_this_machine_still_get_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve_to(monkeypatch, [])
    monkeypatch.setattr(addresses, "_outgoing_address", lambda: None)
    assert await reachable_host() == LOOPBACK


async def test_a_slow_name_service_does_not_hold_up_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def getaddrinfo(*_args: object, **_kwargs: object) -> list[object]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(addresses, "RESOLVE_TIMEOUT_S", 0.001)
    assert await reachable_host()


async def test_endpoints_are_told_with_real_hosts_and_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve_to(monkeypatch, [OURS])
    told = await advertise(
        (
            Endpoint("A", "", 0),
            Endpoint("B", "given.example", 0),
            Endpoint("C", "", 9092),
            Endpoint("D", "given.example", 1234),
        ),
        {"A": 5001, "B": 5002, "C": 5003, "D": 5004},
    )
    assert [(one.name, one.host, one.port) for one in told] == [
        ("A", "some-machine", 5001),
        ("B", "given.example", 5002),
        ("C", "some-machine", 9092),
        ("D", "given.example", 1234),
    ]


async def test_names_are_not_looked_up_when_every_host_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve_to(monkeypatch, AssertionError("nobody asked"))
    (told,) = await advertise((Endpoint("A", "given.example", 0),), {"A": 5001})
    assert (told.host, told.port) == ("given.example", 5001)
