"""Who is let in while a broker joins its cluster."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.entrance import Entrance
from moldau.wire.api import ApiKey
from moldau.wire.headers import FIRST_PRIVATE_KEY


class Connection:
    closed = False
    broker_id = -1

    def close(self) -> None:
        self.closed = True


def frame(key: int) -> memoryview:
    return memoryview(key.to_bytes(2, "big") + bytes(10))


@pytest.mark.parametrize("key", [ApiKey.API_VERSIONS, FIRST_PRIVATE_KEY, FIRST_PRIVATE_KEY + 2])
def test_brokers_are_let_in(key: int) -> None:
    router: Any = lambda _connection, received: [bytes(received)]  # noqa: E731
    connection: Any = Connection()
    assert Entrance(router)(connection, frame(key)) == [bytes(frame(key))]
    assert not connection.closed


def test_clients_are_sent_away_until_it_is_open() -> None:
    router: Any = lambda _connection, received: [bytes(received)]  # noqa: E731
    connection: Any = Connection()
    entrance = Entrance(router)
    assert entrance(connection, frame(ApiKey.METADATA)) is None
    assert connection.closed
    entrance.open()
    assert entrance(connection, frame(ApiKey.METADATA)) == [bytes(frame(ApiKey.METADATA))]


def test_a_broker_that_proved_who_it_is_may_ask_anything() -> None:
    router: Any = lambda _connection, received: [bytes(received)]  # noqa: E731
    connection: Any = Connection()
    connection.broker_id = 2
    assert Entrance(router)(connection, frame(ApiKey.FETCH)) is not None
