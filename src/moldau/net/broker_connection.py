"""A connection to one broker that knows which versions of each API the broker speaks.

The versions are asked for right after connecting (KIP-35), and again after a login, as Java does;
every request then goes out in the newest version that both sides know, and is seen by callers in
its newest shape.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kio.schema.api_versions.v4.request import ApiVersionsRequest

from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.machine.errors import TlsHandshakeError
from moldau.net.address import show
from moldau.net.channel import Channel
from moldau.net.errors import FrameSizeError, RequestTimeoutError
from moldau.net.frames import BufferPool
from moldau.net.held_requests import HeldRequests
from moldau.request_errors import (
    ConnectionLostError,
    SslAuthenticationError,
    TimedOutError,
    UnsupportedApiError,
    check,
)
from moldau.version import __version__
from moldau.wire.api import KNOWN, ApiKey, VersionRange
from moldau.wire.errors import ProtocolError
from moldau.wire.make import make
from moldau.wire.messages import decode_response, encode_request

if TYPE_CHECKING:
    from ssl import SSLContext

T = TypeVar("T")

Parts = Sequence[bytes | bytearray | memoryview]
EncodeRequest = Callable[[int, int, str], Parts]
"""Version, correlation id and client id → the parts of a whole request frame."""

# The oldest brokers that still speak record batches of today know this version; newer ones all do.
_API_VERSIONS_VERSION: Final = 3

# More than any answer we ask for, and less than what "HTTP" or a TLS record read as a size come to:
# a peer that is no Kafka listener is found out at its first four bytes.
_MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024

# How a TLS server begins that is asked something else: an alert, of TLS 1.0 or later.
_TLS_ALERT: Final = b"\x15\x03"


class Security(Protocol):
    """How the two sides of a connection make sure of each other, unless it is PLAINTEXT."""

    @property
    def tls(self) -> SSLContext | None: ...

    def tls_failure(self, error: BaseException, where: str) -> KafkaError:
        """Returns what an error of the TLS handshake, or of the connection right after it,
        means.
        """
        ...

    async def log_in(self, connection: BrokerConnection, within: float) -> bool:
        """Log in, now and later, on a new connection; False if there is no login."""
        ...


class BrokerConnection:
    """Requests to one broker, answered in order. Failures are ``KafkaError``."""

    def __init__(
        self,
        channel: Channel,
        host: str,
        port: int,
        client_id: str,
        security: Security | None = None,
    ) -> None:
        self.address = (host, port)
        self._channel = channel
        self._outlet: Channel | HeldRequests = channel
        """Where requests go: the channel, or beside it while a login is under way."""
        self._security = security
        self.is_proven = False
        """Whether the broker is known to take more than what belongs to connecting."""
        self._client_id = client_id
        self._correlation_ids = count(1)
        self._versions: dict[int, VersionRange] = {}
        self.features: dict[str, int] = {}
        """The levels of features that the cluster has agreed on (KIP-584)."""
        self.last_used = 0.0
        """When the last request was sent or answered, by the loop's clock."""
        self._time = asyncio.get_running_loop().time

    @classmethod
    async def open(
        cls,
        machine: Machine,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_timeout: float,
        request_timeout: float,
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
        security: Security | None = None,
        pool: BufferPool | None = None,
    ) -> BrokerConnection:
        """Connect, log in if there is a login, and learn the broker's API versions. Answers are
        read into buffers of the pool.
        """
        tls = None if security is None else security.tls
        try:
            channel = await Channel.connect(
                machine,
                host,
                port,
                connect_timeout=connect_timeout,
                request_timeout=request_timeout,
                receive_buffer_bytes=receive_buffer_bytes,
                send_buffer_bytes=send_buffer_bytes,
                max_response_bytes=_MAX_RESPONSE_BYTES,
                tls=tls,
                pool=pool,
            )
        except (OSError, TimeoutError) as error:
            raise _cannot_connect(error, show(host, port), security) from error
        connection = cls(channel, host, port, client_id, security)
        try:
            await connection._learn_versions(connect_timeout)
            if security is not None and await security.log_in(connection, connect_timeout):
                await connection._learn_versions(connect_timeout)
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self._channel.is_closed

    @property
    def congested(self) -> bool:
        """Whether more is queued than the broker takes; ``drain`` waits for the end of that."""
        return self._channel.is_congested or self._outlet is not self._channel

    @property
    def in_flight(self) -> int:
        """Requests without an answer yet."""
        return self._channel.in_flight

    @property
    def ended(self) -> asyncio.Future[Exception | None]:
        """Done with the end of the connection; the result is the reason, None after ``close``."""
        return self._channel.closed

    def version_of(self, api: ApiKey, at_most: int | None = None) -> int:
        """Returns the newest version of an API that both sides speak."""
        theirs = self._versions.get(api)
        ours = KNOWN[api]
        if theirs is None:
            raise UnsupportedApiError(f"{self} does not serve {api.name}")
        version = min(ours.newest, theirs.newest)
        if at_most is not None:
            version = min(version, at_most)
        if version < max(ours.oldest, theirs.oldest):
            raise UnsupportedApiError(
                f"{self} speaks {api.name} versions {theirs}, this client {ours}"
            )
        return version

    async def request(
        self,
        api: ApiKey,
        message: Any,
        *,
        within: float | None = None,
        at_most: int | None = None,
    ) -> Any:
        """Send a message in its newest shape and give the answer in its newest shape.

        ``at_most`` bounds the version: some APIs have newer ones that are for brokers only.
        """
        version = self.version_of(api, at_most)
        frame = await self._send(
            version,
            lambda version, correlation_id, client_id: [
                encode_request(api, version, correlation_id, client_id, message)
            ],
            within,
        )
        self.is_proven = True
        return self._decode(version, frame, partial(_decode_answer, api))

    async def request_ahead(self, api: ApiKey, message: Any, *, within: float) -> Any:
        """A request of the login: it waits for none that are held, and is no use of the connection
        that would keep it open.
        """
        version = self.version_of(api)
        correlation_id = next(self._correlation_ids)
        parts = [encode_request(api, version, correlation_id, self._client_id, message)]
        # What is under way is answered first, and may well take longer (a group that rebalances).
        patience = within + self._channel.patience
        try:
            frame = await self._channel.send(parts, correlation_id, timeout=patience)
        except (RequestTimeoutError, OSError, ProtocolError) as error:
            raise self.failure(error) from error
        return self._decode(version, frame, partial(_decode_answer, api))

    def hold(self) -> None:
        """Keep requests back from now on; ``release`` sends them."""
        self._outlet = HeldRequests(self._channel)

    def release(self) -> None:
        held, self._outlet = self._outlet, self._channel
        if isinstance(held, HeldRequests):
            held.release()

    async def exchange(
        self,
        api: ApiKey,
        encode: EncodeRequest,
        decode: Callable[[int, memoryview], T],
        *,
        within: float | None = None,
    ) -> T:
        """For the hand-written codecs: what they make of version and frame of the answer."""
        version = self.version_of(api)
        frame = await self._send(version, encode, within)
        self.is_proven = True
        return self._decode(version, frame, decode)

    async def exchange_unadvertised(
        self,
        version: int,
        encode: EncodeRequest,
        decode: Callable[[int, memoryview], T],
        *,
        within: float | None = None,
    ) -> T:
        """As ``exchange``, of something that no broker says to serve, in a version that both sides
        have to know.
        """
        return self._decode(version, await self._send(version, encode, within), decode)

    def post(
        self,
        api: ApiKey,
        encode: EncodeRequest,
        *,
        within: float | None = None,
        at_most: int | None = None,
    ) -> tuple[int, asyncio.Future[memoryview]]:
        """As ``exchange``, without waiting; ``failure`` puts what the future raises into words."""
        version = self.version_of(api, at_most)
        correlation_id = next(self._correlation_ids)
        self.last_used = self._time()
        self.is_proven = True  # nobody posts before something else was answered
        parts = encode(version, correlation_id, self._client_id)
        return version, self._outlet.send(parts, correlation_id, timeout=within)

    def failure(self, error: BaseException) -> KafkaError:
        """Returns what a request failed with, as an error of this client."""
        if isinstance(error, RequestTimeoutError):
            failure: KafkaError = TimedOutError(f"The {self} did not answer in time")
        elif isinstance(error, OSError | ProtocolError):
            failure = ConnectionLostError(_reason(error, f"Lost the connection to {self}"))
        else:
            raise error
        failure.__cause__ = error
        return failure

    def post_oneway(self, api: ApiKey, encode: EncodeRequest) -> None:
        """Send a request that gets no answer (Produce with acks=0), without waiting."""
        version = self.version_of(api)
        self.last_used = self._time()
        try:
            self._outlet.send_oneway(encode(version, next(self._correlation_ids), self._client_id))
        except OSError as error:
            raise ConnectionLostError(_reason(error, f"Lost {self}")) from error

    async def send_oneway(self, api: ApiKey, encode: EncodeRequest) -> None:
        """Send a request that gets no answer; waits while the broker takes no more."""
        self.post_oneway(api, encode)
        await self.drain()

    async def drain(self) -> None:
        """Wait while the broker takes no more."""
        while isinstance(held := self._outlet, HeldRequests):
            await held.released.wait()
        try:
            await self._channel.drain()
        except OSError as error:
            raise ConnectionLostError(_reason(error, f"Lost {self}")) from error

    async def close(self) -> None:
        self._channel.close()
        await self._channel.closed

    def abandon(self) -> None:
        """Close without waiting for the end."""
        self._channel.close()

    def __str__(self) -> str:
        return f"broker {show(*self.address)}"

    async def _send(self, version: int, encode: EncodeRequest, within: float | None) -> memoryview:
        correlation_id = next(self._correlation_ids)
        self.last_used = self._time()
        parts = encode(version, correlation_id, self._client_id)
        try:
            frame = await self._outlet.send(parts, correlation_id, timeout=within)
        except (RequestTimeoutError, OSError, ProtocolError) as error:
            raise self.failure(error) from error
        self.last_used = self._time()
        return frame

    def _decode(self, version: int, frame: memoryview, decode: Callable[[int, memoryview], T]) -> T:
        try:
            return decode(version, frame)
        except ProtocolError as error:
            self._channel.close()
            raise ConnectionLostError(
                f"The {self} sent an answer that makes no sense: {error}"
            ) from error

    async def _learn_versions(self, within: float) -> None:
        version = _API_VERSIONS_VERSION
        answer = await self._ask_versions(version, within)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            ranges = {api.api_key: api.max_version for api in answer.api_keys}
            version = min(version, ranges.get(ApiKey.API_VERSIONS, 0))
            answer = await self._ask_versions(version, within)
        check(answer.error_code)
        self._versions = {
            api.api_key: VersionRange(api.min_version, api.max_version) for api in answer.api_keys
        }
        self.features = {
            feature.name: feature.max_version_level for feature in answer.finalized_features
        }

    async def _ask_versions(self, version: int, within: float) -> Any:
        request = make(
            ApiVersionsRequest, client_software_name="moldau", client_software_version=__version__
        )
        try:
            frame = await self._send(
                version,
                lambda version, correlation_id, client_id: [
                    encode_request(ApiKey.API_VERSIONS, version, correlation_id, client_id, request)
                ],
                within,
            )
        except ConnectionLostError as error:
            raise self._no_listener(error) from error
        return self._decode(version, frame, partial(_decode_answer, ApiKey.API_VERSIONS))

    def _no_listener(self, error: ConnectionLostError) -> KafkaError:
        """Returns what it means that not even the first question got an answer."""
        where, cause = show(*self.address), error.__cause__
        if self._security is not None and self._security.tls is not None:
            return self._security.tls_failure(cause or error, where)
        if isinstance(cause, FrameSizeError) and cause.start.startswith(_TLS_ALERT):
            return SslAuthenticationError(
                f"{where} speaks TLS, and this client does not: set security.protocol=SSL, or "
                "SASL_SSL with a login"
            )
        if isinstance(cause, ProtocolError):
            return ConnectionLostError(f"{where} is not a Kafka listener: {cause}")
        return ConnectionLostError(
            f"{where} hung up before it answered anything: it starts or stops, or wants TLS "
            "(security.protocol)"
        )


def _decode_answer(api: ApiKey, version: int, frame: memoryview) -> Any:
    return decode_response(api, version, frame)[1]


def _cannot_connect(error: Exception, where: str, security: Security | None) -> KafkaError:
    if security is not None and isinstance(error, TlsHandshakeError):
        return security.tls_failure(error, where)
    return ConnectionLostError(_reason(error, f"Cannot connect to {where}"))


def _reason(error: Exception, what: str) -> str:
    """Returns one sentence: what failed and why, in the operating system's words where it has
    some.
    """
    cause = error if isinstance(error, OSError) and error.errno else error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return f"{what}: {cause.strerror}"
    return f"{what}: {str(error) or type(error).__name__}"
