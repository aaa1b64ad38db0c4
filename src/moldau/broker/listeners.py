"""The listeners of a running broker: those that its settings want, whenever these change.

A change is made in two steps, so that nobody is told of a listener that is not there. First all
that the new settings want is opened besides what is open (``prepared``); a port that cannot be had
refuses them. Then the settings are stored, and with them what clients are told; when they come into
force, what they do not want any more is closed (``reconfigure``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from moldau.broker.advertising import advertise
from moldau.broker.configs import Configs
from moldau.broker.tasks import Tasks
from moldau.config.option import Option
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.endpoints import Endpoint
from moldau.coordination import znodes
from moldau.errors import invalid_request
from moldau.machine import Machine
from moldau.net import BufferPool, ConnectionLimits, Handler, Listener, ListenerSettings
from moldau.net.memory_pool import MemoryPool
from moldau.net.quotas import ConnectionQuota, ConnectionQuotas, ConnectionQuotaSettings
from moldau.quotas.manager import ClientQuotaManager
from moldau.quotas.meters import Rate

log = logging.getLogger(__name__)

DRAIN_TIMEOUT_S: Final = 5.0
IN_FORCE_WITHIN_S: Final = 5.0
FILES: Final = 1024
"""For how many open files of logs there is room at least, if there can be."""


class BrokerListeners:
    """In the order of ``listeners``."""

    def __init__(
        self,
        machine: Machine,
        configs: Configs,
        handler: Handler,
        rates: ClientQuotaManager[Rate],
        tasks: Tasks,
        memory: MemoryPool,
    ) -> None:
        """``rates``: those at which addresses may connect."""
        config = configs.broker
        self._machine = machine
        self._configs = configs
        self._handler = handler
        self._tasks = tasks
        self._settings = ListenerSettings(
            limits=ConnectionLimits(max_request_bytes=config.socket_request_max_bytes),
            receive_buffer_bytes=_if_set(config, BrokerConfig.socket_receive_buffer_bytes),
            send_buffer_bytes=_if_set(config, BrokerConfig.socket_send_buffer_bytes),
            backlog=config.socket_listen_backlog_size,
            max_idle_ms=config.connections_max_idle_ms,
        )
        self._room = room_for_connections(machine.limits.raise_open_files())
        if config.is_set(BrokerConfig.max_connections) and config.max_connections > self._room:
            log.warning(
                "max.connections=%d, but the system lets this process have so few open files that "
                "it holds %d connections at most (ulimit -n)",
                config.max_connections,
                self._room,
            )
        self._quotas = ConnectionQuotas(_connection_quotas(config, self._room), rates=rates)
        self._pool = BufferPool(memory=memory)
        self._listeners: list[Listener] = []
        self._retired: set[asyncio.Task[None]] = set()
        self._is_serving = False
        self._between_brokers: Listener | None = None
        """One that is open before the others are."""
        self._prepared: tuple[Endpoint, ...] = ()
        self._reconfigured = asyncio.Event()
        self.changing: Final = asyncio.Lock()
        """Held by whoever decides on other settings of this broker until they are in force."""

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners)

    @property
    def addresses(self) -> list[str]:
        return [_address(listener) for listener in self]

    async def bind(self) -> None:
        """Reserve the addresses of the present settings, so that real ports can be advertised."""
        await self._open(self._configs.broker.endpoints)
        self._configs.on_broker_change.append(self.reconfigure)

    def start_between_brokers(self, entrance: Handler) -> None:
        """Let those in through the listener of brokers whom the entrance lets in."""
        name = self._configs.broker.inter_broker_listener
        listener = next((one for one in self if one.name == name), None)
        if listener is not None:
            self._between_brokers = listener
            listener.hand_over(entrance)
            self._start(listener)

    def start(self) -> None:
        """Let clients in."""
        self._is_serving = True
        for listener in self:
            if listener is self._between_brokers:
                listener.hand_over(self._handler)
            else:
                self._start(listener)

    def close(self) -> asyncio.Future[list[None]]:
        """Let nobody in; answer what is under way."""
        self._is_serving = False
        closing = [listener.close(DRAIN_TIMEOUT_S) for listener in self]
        return asyncio.gather(*closing, *self._retired)

    async def advertised(self, config: BrokerConfig) -> tuple[znodes.Endpoint, ...]:
        """What others are told of what is open for these settings."""
        ports = {
            endpoint.name: listener.port
            for endpoint in config.endpoints
            if (listener := self._opened(endpoint)) is not None
        }
        endpoints = await advertise(self._machine.network, config.advertised_endpoints, ports)
        return tuple(
            znodes.Endpoint(endpoint.name, endpoint.host, endpoint.port, endpoint.protocol)
            for endpoint in endpoints
        )

    @asynccontextmanager
    async def prepared(self, config: BrokerConfig) -> AsyncIterator[tuple[znodes.Endpoint, ...]]:
        """Have open what other settings want, too, until they are in force or known not to be; what
        is then not wanted is closed. Gives what others are to be told with them.

        Raises INVALID_REQUEST when a listener cannot be opened.
        """
        self._prepared = config.endpoints
        try:
            try:
                await self._open(config.endpoints)
            except OSError as error:
                raise invalid_request(
                    f"The listeners are not changed: {error.strerror or error}"
                ) from error
            yield await self.advertised(config)
        finally:
            self._prepared = ()
            self._close_unwanted(self._configs.broker)

    async def in_force(self) -> None:
        """Wait until what is prepared holds: it is decided, and the controller says so soon. If
        that takes long, what was opened for it is closed, and opened again when it comes.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(IN_FORCE_WITHIN_S):
                while self._configs.broker.endpoints != self._prepared:
                    self._reconfigured.clear()
                    await self._reconfigured.wait()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Other settings are in force."""
        self._reconfigured.set()
        self._quotas.configure(_connection_quotas(config, self._room))
        self._close_unwanted(config)
        if not all(self._opened(endpoint) for endpoint in config.endpoints):
            self._tasks.spawn(self._open_late())

    async def _open_late(self) -> None:
        """Settings came into force after all, when nobody waited for them any more."""
        async with self.changing:
            try:
                await self._open(self._configs.broker.endpoints)
            except OSError as error:
                log.error("not all of listeners is open: %s", error.strerror or error)

    def _opened(self, endpoint: Endpoint) -> Listener | None:
        """Returns the listener that is there for an endpoint; any port is as good as any other."""
        for listener in self:
            is_there = (listener.name, listener.host) == (endpoint.name, endpoint.host)
            if is_there and endpoint.port in (0, listener.port):
                return listener
        return None

    async def _open(self, endpoints: Sequence[Endpoint]) -> None:
        """Open those that are not; all of them, or with an OSError none."""
        missing = [endpoint for endpoint in endpoints if self._opened(endpoint) is None]
        opened: list[Listener] = []
        try:
            for endpoint in missing:
                opened.append(listener := self._listener(endpoint))
                # A name may take its time to be found.
                await self._machine.threads.run(listener.bind)
                if self._is_serving:
                    self._start(listener)
        except BaseException:
            for listener in opened:
                self._retire(listener)
            raise
        self._listeners += opened

    @staticmethod
    def _start(listener: Listener) -> None:
        listener.start()
        log.info("listener %s is open at %s", listener.name, _address(listener))

    def _listener(self, endpoint: Endpoint) -> Listener:
        return Listener(
            endpoint.name,
            endpoint.host,
            endpoint.port,
            self._handler,
            network=self._machine.network,
            clock=self._machine.clock,
            settings=self._settings,
            quotas=self._quotas,
            pool=self._pool,
        )

    def _close_unwanted(self, config: BrokerConfig) -> None:
        wanted = (self._opened(endpoint) for endpoint in (*config.endpoints, *self._prepared))
        kept = list(dict.fromkeys(listener for listener in wanted if listener is not None))
        for listener in self._listeners:
            if listener not in kept:
                log.info("listener %s at %s is closed", listener.name, _address(listener))
                self._retire(listener)
        self._listeners = kept

    def _retire(self, listener: Listener) -> None:
        """Whoever asked for it may be connected here, and is answered."""
        listener.stop()
        closing = asyncio.ensure_future(listener.close(DRAIN_TIMEOUT_S))
        self._retired.add(closing)
        closing.add_done_callback(self._retired.discard)


def _if_set(config: BrokerConfig, option: Option[int]) -> int:
    """Returns a socket's buffer size, if anybody asked for one; -1 leaves it to the system.

    Kafka's default of 100 KB turns off the system's own tuning, which doubles the CPU time of
    large requests (docs/adr/0001-own-transport-and-sendfile.md).
    """
    return config.value(option) if config.is_set(option) else -1


def room_for_connections(open_files: int) -> int:
    """How many connections leave enough descriptors for the files of logs: of many descriptors
    three quarters, of few one half.
    """
    return open_files - max(open_files // 4, min(open_files // 2, FILES))


def _connection_quotas(config: BrokerConfig, room: int) -> ConnectionQuotaSettings:
    return ConnectionQuotaSettings(
        broker=ConnectionQuota(
            min(config.max_connections, room), config.max_connection_creation_rate
        ),
        listeners={
            endpoint.name: ConnectionQuota(
                config.listener_value(endpoint.name, BrokerConfig.max_connections),
                config.listener_value(endpoint.name, BrokerConfig.max_connection_creation_rate),
            )
            for endpoint in config.endpoints
        },
        inter_broker_listener=config.inter_broker_listener,
        max_per_ip=config.max_connections_per_ip,
        overrides=config.max_connections_by_ip(),
    )


def _address(listener: Listener) -> str:
    return f"{bracketed(listener.host)}:{listener.port}"


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host or "0.0.0.0"  # noqa: S104 - shown, not bound
