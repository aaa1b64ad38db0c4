"""What brokers of one cluster answer each other (``wire/private.py``).

| API | versions | behaviour |
|---|---|---|
| AUTHENTICATE_BROKER | 0 | two messages of SCRAM, as in ``peer_authentication.py``; the first thing on a connection |
| BROKER_UPDATE | 0 | a ``BrokerUpdate``, answered with the replicas that failed once it is applied |
| CONTROLLER_REQUEST | 0 | a ``ControllerRequest``, answered if this broker is in charge, else NOT_CONTROLLER: never carried on |

They are served on the listener that brokers use among themselves. Elsewhere, and for whoever has
not shown to be a broker, they are API keys that do not exist, and the connection is closed.
"""  # noqa: E501 - a table

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from moldau.broker.controller_port import ControllerClient
from moldau.broker.controller_requests import ControllerRequest, put_to
from moldau.broker.peer_authentication import PeerAuthentication
from moldau.controller import BrokerUpdate, ReplicaError
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import Clock
from moldau.net import Pending, ServerConnection
from moldau.net.log_limiter import LogLimiter
from moldau.request_errors import AuthenticationError
from moldau.security.scram_server import ScramServer
from moldau.wire.errors import DecodeError
from moldau.wire.headers import RequestHeader
from moldau.wire.private import VERSION, PrivateApi, decode_body, encode_error, encode_result

log = logging.getLogger(__name__)

ApplyUpdate = Callable[[BrokerUpdate], Awaitable[Sequence[ReplicaError]]]
Spawn = Callable[[Coroutine[Any, Any, None]], None]

_LONGEST_MESSAGE: Final = 4096
"""Of an authentication: what strangers may have decoded."""


class PrivateApis:
    def __init__(
        self,
        listener: str,
        authentication: PeerAuthentication,
        apply_update: ApplyUpdate,
        controller: ControllerClient,
        spawn: Spawn,
        clock: Clock,
        *,
        failure_delay: float,
    ) -> None:
        """``controller`` is this broker's own, in charge or not; ``failure_delay``: seconds that
        whoever guesses has to wait for the answer.
        """
        self._listener = listener
        self._authentication = authentication
        self._apply_update = apply_update
        self._controller = controller
        self._spawn = spawn
        self._clock = clock
        self._failure_delay = failure_delay
        self._limiter = LogLimiter(log, clock.monotonic, lines=2, interval=60.0)
        self.requests: defaultdict[str, int] = defaultdict(int)
        """How many were understood, by the name of their body; and how long they took."""
        self.time_s: defaultdict[str, float] = defaultdict(float)

    def answer(
        self, header: RequestHeader, connection: ServerConnection, frame: memoryview, position: int
    ) -> Sequence[bytes] | Pending:
        """Returns the answer to a request; raises DecodeError for one that is not served."""
        is_ours = connection.listener == self._listener and header.api_version == VERSION
        match header.api_key if is_ours else -1:
            case PrivateApi.AUTHENTICATE_BROKER:
                if connection.broker_id < 0 and len(frame) - position <= _LONGEST_MESSAGE:
                    message = decode_body(frame, position, bytes)
                    self.requests["AuthenticateBroker"] += 1
                    return self._authenticate(header, connection, message)
            case PrivateApi.BROKER_UPDATE if connection.broker_id >= 0:
                update: BrokerUpdate = decode_body(frame, position, BrokerUpdate)
                if update.controller_id == connection.broker_id:
                    return self._later(header, update, self._apply_update(update))
            case PrivateApi.CONTROLLER_REQUEST if connection.broker_id >= 0:
                request = decode_body(frame, position, ControllerRequest)
                return self._later(header, request, put_to(request, self._controller))
        raise DecodeError(f"unknown API key {header.api_key}")

    def _authenticate(
        self, header: RequestHeader, connection: ServerConnection, message: bytes
    ) -> Sequence[bytes] | Pending:
        exchange, connection.authentication = connection.authentication, None
        try:
            if isinstance(exchange, ScramServer):
                claim, answer = self._authentication.finish(exchange, message)
                connection.broker_id = claim.sender
            else:
                connection.authentication, answer = self._authentication.begin(message)
        except KafkaError as error:
            reason = (
                "the two have not the same cluster secret"
                if isinstance(error, AuthenticationError) and isinstance(exchange, ScramServer)
                else error.message
            )
            self._limiter.warning(
                f"{connection.peer_host} {error.code.name}",
                f"{connection.peer} is not accepted as a broker of this cluster: {reason}",
            )
            connection.finish()
            pending = Pending()
            refusal = encode_error(header.correlation_id, error.code, reason)
            timer = self._clock.call_later(self._failure_delay, lambda: pending.complete([refusal]))
            pending.on_abandoned = timer.cancel
            return pending
        return [encode_result(header.correlation_id, answer)]

    def _later(self, header: RequestHeader, body: object, work: Awaitable[object]) -> Pending:
        name = type(body).__name__
        self.requests[name] += 1
        pending = Pending()
        self._spawn(self._complete(name, header.correlation_id, work, pending))
        return pending

    async def _complete(
        self, name: str, correlation_id: int, work: Awaitable[object], pending: Pending
    ) -> None:
        start = self._clock.monotonic()
        try:
            answer = encode_result(correlation_id, await work)
        except KafkaError as error:
            answer = encode_error(correlation_id, error.code, error.message)
        except Exception:
            log.exception("a request of another broker failed")
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            answer = encode_error(correlation_id, code, code.message)
        self.time_s[name] += self._clock.monotonic() - start
        pending.complete([answer])
