"""What clients are told of a broker's listeners."""

from __future__ import annotations

from moldau.broker.advertising import advertise
from moldau.config.values.endpoints import Endpoint
from moldau.machine.real.sockets.network import SocketNetwork


class NamedMachine(SocketNetwork):
    """Counts how often somebody looks for a host under which it can be reached."""

    def __init__(self) -> None:
        self.asked = 0

    async def reachable_host(self) -> str:
        self.asked += 1
        return "some-machine"


async def test_endpoints_are_told_with_real_hosts_and_ports() -> None:
    told = await advertise(
        NamedMachine(),
        (
            Endpoint("A", "", 0),
            Endpoint("B", "given.example", 0),
            Endpoint("C", "", 9092),
            Endpoint("D", "given.example", 1234),
        ),
        {"A": 5001, "B": 5002, "C": 5003, "D": 5004},
    )
    assert [(endpoint.name, endpoint.host, endpoint.port) for endpoint in told] == [
        ("A", "some-machine", 5001),
        ("B", "given.example", 5002),
        ("C", "some-machine", 9092),
        ("D", "given.example", 1234),
    ]


async def test_names_are_not_looked_up_when_every_host_is_given() -> None:
    network = NamedMachine()
    (told,) = await advertise(network, (Endpoint("A", "given.example", 0),), {"A": 5001})
    assert (told.host, told.port) == ("given.example", 5001)
    assert network.asked == 0
