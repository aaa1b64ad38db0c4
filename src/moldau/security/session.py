"""The login of one connection: the first one, and those that follow before it runs out (KIP-368).

SaslHandshake names the mechanism, SaslAuthenticate carries its messages (KIP-152); the broker's
last answer may say how long the login lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, Protocol

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from moldau.errors import ErrorCode, KafkaError
from moldau.printable import LONGEST_LINE, printable
from moldau.request_errors import AuthenticationError, error_of
from moldau.security.mechanism import Mechanism
from moldau.wire.api import ApiKey
from moldau.wire.make import make

logger: Final = logging.getLogger("moldau.client.login")  # where clients log everything

_EARLIEST: Final = 0.85
_LATEST: Final = 0.95
"""When to log in anew, as a part of the login's life: Java's figures; not all at the same time."""


class LoginConnection(Protocol):
    """What a login needs of the connection that it is for."""

    @property
    def closed(self) -> bool: ...

    @property
    def ended(self) -> asyncio.Future[Exception | None]:
        """Done with the end of the connection."""
        ...

    async def request_ahead(self, api: ApiKey, message: Any, *, within: float) -> Any:
        """Send a request that waits for none that are held; returns the answer."""
        ...

    def hold(self) -> None:
        """Keep other requests back until ``release``."""
        ...

    def release(self) -> None: ...

    def abandon(self) -> None:
        """Close without waiting for the end."""
        ...


class SaslSession:
    """Lives as long as its connection."""

    def __init__(
        self,
        connection: LoginConnection,
        new_mechanism: Callable[[], Awaitable[Mechanism]],
        within: float,
        random: Random,
    ) -> None:
        self._random = random
        self._connection = connection
        self._new_mechanism = new_mechanism
        self._within = within
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Log in; ``AuthenticationError`` with the broker's sentence when it refuses."""
        await self._log_in()
        self._connection.ended.add_done_callback(self._stop)

    async def _log_in(self) -> None:
        mechanism = await self._new_mechanism()
        answer = await self._ask(
            ApiKey.SASL_HANDSHAKE, make(SaslHandshakeRequest, mechanism=mechanism.name)
        )
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise AuthenticationError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"The {self._connection} does not offer sasl.mechanism={mechanism.name}; it has "
                f"{printable(', '.join(sorted(answer.mechanisms)), LONGEST_LINE) or 'none'}",
            )
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationError(
                ErrorCode.ILLEGAL_SASL_STATE,
                f"The {self._connection} has no login: set security.protocol to SSL or PLAINTEXT",
            )
        self._check(answer.error_code, None)
        lifetime = 0.0
        message = mechanism.respond(b"")
        while message is not None:
            answer = await self._ask(
                ApiKey.SASL_AUTHENTICATE, make(SaslAuthenticateRequest, auth_bytes=message)
            )
            self._check(answer.error_code, answer.error_message)
            lifetime = answer.session_lifetime.total_seconds()
            message = mechanism.respond(bytes(answer.auth_bytes))
        self._arm(lifetime)

    async def _ask(self, api: ApiKey, request: Any) -> Any:
        return await self._connection.request_ahead(api, request, within=self._within)

    def _check(self, code: int, message: str | None) -> None:
        error = error_of(code)
        if error is not None:
            said = printable(message, LONGEST_LINE) if message else error.message
            raise type(error)(error.code, f"The {self._connection} refuses the login: {said}")

    def _arm(self, lifetime: float) -> None:
        if lifetime > 0:
            part = self._random.uniform(_EARLIEST, _LATEST)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(lifetime * part, self._renew)

    def _renew(self) -> None:
        self._task = asyncio.create_task(self._log_in_again(), name=f"login {self._connection}")

    async def _log_in_again(self) -> None:
        connection = self._connection
        connection.hold()
        try:
            await self._log_in()
            logger.debug("logged in to %s anew", connection)
        except KafkaError as error:
            if not connection.closed:
                logger.warning("cannot log in to %s anew: %s", connection, error.message)
                connection.abandon()
        finally:
            connection.release()

    def _stop(self, _ended: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
