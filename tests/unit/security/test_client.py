"""Logins of whoever connects, on a connection that is none: no socket, chance from a seed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from moldau.errors import ErrorCode
from moldau.machine.real import this_machine
from moldau.request_errors import ConnectionLostError
from moldau.security.client import ClientSecurity
from moldau.security.logins import PasswordLogin
from moldau.wire.api import ApiKey
from moldau.wire.make import make

LOGIN = PasswordLogin("SCRAM-SHA-256", "user", "pencil")


class Connection:
    """Notes the first message of a login, and breaks."""

    closed = False

    def __init__(self) -> None:
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.first = b""

    async def request_ahead(self, api: ApiKey, message: Any, *, within: float) -> Any:
        if api is ApiKey.SASL_HANDSHAKE:
            return make(
                SaslHandshakeResponse, error_code=ErrorCode.NONE, mechanisms=("SCRAM-SHA-256",)
            )
        self.first = message.auth_bytes
        raise ConnectionLostError("gone")

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def abandon(self) -> None: ...


async def first_messages(seed: int) -> list[bytes]:
    machine = replace(this_machine(), secrets=Random(seed))
    security = ClientSecurity(machine, None, LOGIN)
    messages = []
    for _ in range(2):
        connection = Connection()
        with pytest.raises(ConnectionLostError, match="gone"):
            await security.log_in(connection, 1.0)
        messages.append(connection.first)
    return messages


async def test_every_login_has_a_nonce_of_its_own_by_the_machines_chance() -> None:
    one, other = await first_messages(7)
    assert one.startswith(b"n,,n=user,r=")
    assert one != other
    assert [one, other] == await first_messages(7)


async def test_without_a_login_there_is_nothing_to_do() -> None:
    assert await ClientSecurity(this_machine(), None, None).log_in(Connection(), 1.0) is False
