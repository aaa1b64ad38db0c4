"""One request: what every handler is given, whatever the API."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from moldau.controller import Mutator
from moldau.errors import ErrorCode, KafkaError
from moldau.groups.client_info import ClientInfo
from moldau.machine import Part
from moldau.native import mypyc_attr
from moldau.net import ServerConnection
from moldau.wire.headers import RequestHeader

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.controller_port import ControllerClient
    from moldau.broker.routes import Route

log = logging.getLogger(__name__)

B = TypeVar("B")


@mypyc_attr(allow_interpreted_subclasses=True)
class Request(Generic[B]):
    """Made once per frame by the router; ``B`` is the message, in the newest shape of its API."""

    __deletable__ = ("body",)  # for mypyc: what a handler parks must not hold on to the frame
    __slots__ = (
        "body",
        "broker",
        "connection",
        "deadline",
        "header",
        "is_cacheable",
        "route",
        "throttle_ms",
        "version",
        "whole",
    )

    def __init__(
        self,
        broker: Broker,
        route: Route,
        header: RequestHeader,
        connection: ServerConnection,
        body: B,
    ) -> None:
        self.broker = broker
        self.route = route
        self.header = header
        self.version = header.api_version
        self.connection = connection
        """Where it came in: listener, host and principal of the peer."""
        self.body = body
        """With a codec that works in the connection's buffer, views of it, valid until ``handle``
        returns.
        """
        self.whole: B | None = None
        """The body as it came, while pieces of it are executed."""
        self.deadline: float | None = None
        """When the client gives up, in seconds of the steady clock, if it has said so."""
        self.throttle_ms = 0
        """For how long the client is asked to hold back; see ``MeteredRequest``."""
        self.is_cacheable = False
        """Set by a handler whose answer follows from the request and the metadata alone."""

    @property
    def client(self) -> ClientInfo:
        """The sender as group descriptions show it: Java writes an address with a slash."""
        return ClientInfo(self.client_id, f"/{self.connection.peer_host}")

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def controller(self) -> ControllerClient:
        """The controller, for as long as this request may take."""
        controller = self.broker.controller
        if self.deadline is None:
            return controller
        return controller.within(max(self.deadline - self.broker.clock.monotonic(), 0.0))

    def mutator(self, *, strict: bool) -> Mutator:
        """Who pays for topics and partitions that the controller makes or removes."""
        user = self.connection.principal.name
        return Mutator(user=user, client_id=self.client_id, strict=strict)

    def check_replica(self, replica_id: int) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED if who asks as a replica is not that broker: others
        would move the high watermark, or see above it.
        """
        if replica_id >= 0 and replica_id != self.connection.broker_id:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def handle(self) -> Any:
        """Returns what the handler returns."""
        return self.route.handle(self)

    def handle_large(self) -> Awaitable[Any]:
        """As ``handle``, for the handlers that have a way of their own with large requests."""
        assert self.route.handle_large is not None
        return self.route.handle_large(self)

    def timed(self, steps: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Returns what a handler has still to do, for a task: it counts as the request's time."""
        return steps

    def unanswered(self) -> None:
        """The request is done, and its client wants no answer."""

    def charge(self, response: Any) -> None:
        """The request is done, and this is its answer."""

    def encode(self, response: Any) -> Sequence[Part]:
        """Returns a whole answer, in the version that was asked in."""
        self.charge(response)
        return self.route.encode(
            self.version, self.header.correlation_id, response, self.throttle_ms
        )

    def fail(self, error: Exception) -> Sequence[Part] | None:
        """Returns the encoded answer to a request that failed as a whole. Where the API has no such
        answer, the connection is closed.
        """
        try:
            response = self.refusal(error)
            if response is not None:
                return self.encode(response)
        except Exception:
            log.exception("%s could not even be refused for %s", self._name, self.connection.peer)
        self.connection.close()
        return None

    def refusal(self, error: Exception) -> Any:
        """Returns the answer to a request that failed as a whole: with the code of a KafkaError,
        with UNKNOWN_SERVER_ERROR for whatever nobody thought of; None where the API has none.
        """
        if not isinstance(error, KafkaError):
            log.error("%s failed for %s", self._name, self.connection.peer, exc_info=error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        refused: Request[Any] = self
        if self.whole is not None:
            refused = Request(self.broker, self.route, self.header, self.connection, self.whole)
        return self.route.error_answer(refused, error)

    @property
    def _name(self) -> str:
        return self.route.key.name
