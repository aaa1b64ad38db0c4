"""How many connections are let in, by the whole broker (``max.connections``), each of its listeners
and each address, and how many per second (``max.connection.creation.rate``, KIP-612).

As in Kafka, a broker or a listener that is full or gets too many at once leaves new connections
waiting in the listen backlog; an address that has too many is refused, one that opens them too fast
is refused after a while. With several listeners, the broker's limits do not keep brokers from each
other: the listener between them goes on, and connections of others are closed to make room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.config.options.listeners import of_listener
from moldau.config.options.network import NetworkOptions
from moldau.config.options.quotas import QuotaOptions
from moldau.quotas.entity import canonical_address
from moldau.quotas.manager import ClientQuotaManager
from moldau.quotas.meters import Rate, Window

UNLIMITED: Final = NetworkOptions.max_connection_creation_rate.default
DEFAULT_WINDOW: Final = Window(
    QuotaOptions.quota_window_num.default, QuotaOptions.quota_window_size_seconds.default * 1000
)

# Whoever could come back as soon as there is room for one would come twice as often as allowed.
# Kafka looks after those that it closes late every half a second, while nobody else comes.
LEAST_THROTTLE_MS: Final = 500


class ConnectionQuota(NamedTuple):
    """What a broker or a listener lets in."""

    max_connections: int = NetworkOptions.max_connections.default
    max_creation_rate: int = NetworkOptions.max_connection_creation_rate.default


@dataclass(frozen=True, slots=True)
class ConnectionQuotaSettings:
    broker: ConnectionQuota = field(default_factory=ConnectionQuota)
    listeners: Mapping[str, ConnectionQuota] = field(default_factory=dict)
    """By name; for any other listener the broker's counts."""
    inter_broker_listener: str = ""
    max_per_ip: int = NetworkOptions.max_connections_per_ip.default
    overrides: Mapping[str, int] = field(default_factory=dict)
    """``max.connections.per.ip.overrides``, address to limit"""

    def of_listener(self, name: str) -> ConnectionQuota:
        return self.listeners.get(name, self.broker)


class ConnectionQuotas:
    """Counts the connections of a broker; its listeners share it."""

    def __init__(
        self,
        settings: ConnectionQuotaSettings | None = None,
        *,
        rates: ClientQuotaManager[Rate] | None = None,
    ) -> None:
        """``rates``: the ``connection_creation_rate`` of addresses."""
        self.settings = settings or ConnectionQuotaSettings()
        self.rates = rates
        self.rate = CreationRate(rates.window if rates is not None else DEFAULT_WINDOW)
        self.per_ip: dict[str, int] = {}
        self.count = 0
        self._listeners: list[ListenerQuota] = []
        self._waiters: list[Callable[[], object]] = []

    def configure(self, settings: ConnectionQuotaSettings) -> None:
        """Other limits from now on."""
        self.settings = settings
        self.close_excess()
        self.wake()

    def add(self, listener: ListenerQuota) -> None:
        self._listeners.append(listener)
        self.wake()

    def remove(self, listener: ListenerQuota) -> None:
        """It lets nobody in any more; its connections count until they are closed."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def is_protected(self, listener: str) -> bool:
        """Returns whether brokers come in here, and others have another way in."""
        return listener == self.settings.inter_broker_listener and len(self._listeners) > 1

    def limit_of(self, ip: str) -> int:
        return self.settings.overrides.get(ip, self.settings.max_per_ip)

    def close_excess(self) -> None:
        excess = self.count - self.settings.broker.max_connections
        for listener in self._listeners:
            if excess > 0 and not self.is_protected(listener.name):
                excess -= listener.close_excess(excess)

    def wake(self) -> None:
        """Another connection may be let in: those who wait for that look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def when_free(self, callback: Callable[[], object]) -> None:
        """Call back once when a connection has closed or a limit has changed."""
        self._waiters.append(callback)


class ListenerQuota:
    """What one listener lets in."""

    def __init__(
        self, quotas: ConnectionQuotas, name: str, close_excess: Callable[[int], int]
    ) -> None:
        """``close_excess`` closes as many connections, or all, and returns how many."""
        self._quotas = quotas
        self._rate = CreationRate(quotas.rate.window)
        self.name = name
        self.close_excess = close_excess
        self.count = 0

    @property
    def reached_limit(self) -> str | None:
        """The setting by which nobody more may come in now."""
        quotas, limit = self._quotas, NetworkOptions.max_connections.name
        maximum = quotas.settings.broker.max_connections
        if quotas.count >= maximum and not quotas.is_protected(self.name):
            return f"{limit}={maximum}"
        maximum = quotas.settings.of_listener(self.name).max_connections
        return f"{of_listener(self.name, limit)}={maximum}" if self.count >= maximum else None

    def when_free(self, callback: Callable[[], object]) -> None:
        self._quotas.when_free(callback)

    def limit_of(self, ip: str) -> int:
        return self._quotas.limit_of(ip)

    def throttle_ms(self, ip: str, now_ms: int) -> int:
        """Returns for how long to let a new connection of an address wait before it is closed, 0 if
        it may come in.
        """
        rates = self._quotas.rates
        if rates is None or not rates.is_active:
            return 0
        address = (canonical_address(ip),)
        throttle_ms = rates.record(address, 1, now_ms)
        if not throttle_ms:
            return 0
        rates.record(address, -1, now_ms)  # it will not come in
        return min(max(throttle_ms, LEAST_THROTTLE_MS), rates.window.sample_ms)

    def accepted(self, now_ms: int) -> int:
        """Count a connection that has left the backlog and is not throttled for its address;
        returns for how long the next one has to stay there.
        """
        quotas = self._quotas
        settings = quotas.settings
        pause_ms = self._rate.record(settings.of_listener(self.name).max_creation_rate, now_ms)
        if quotas.is_protected(self.name):
            return pause_ms
        return max(pause_ms, quotas.rate.record(settings.broker.max_creation_rate, now_ms))

    def opened(self, ip: str) -> bool:
        """Count a new connection; False, and not counted, when its address has enough already."""
        quotas = self._quotas
        count = quotas.per_ip.get(ip, 0)
        if count >= quotas.limit_of(ip):
            return False
        quotas.per_ip[ip] = count + 1
        quotas.count += 1
        self.count += 1
        quotas.close_excess()
        return True

    def closed(self, ip: str) -> None:
        """The end of a connection for which ``opened`` was true."""
        quotas = self._quotas
        self.count -= 1
        quotas.count -= 1
        left = quotas.per_ip[ip] - 1
        if left:
            quotas.per_ip[ip] = left
        else:
            del quotas.per_ip[ip]
        quotas.wake()


class CreationRate:
    """How fast connections come in."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._rate = Rate(window)

    def record(self, maximum: int, now_ms: int) -> int:
        """Count a connection; returns for how long to wait with the next one."""
        if maximum == UNLIMITED:
            return 0
        # None at all is no rate: one per window is the least that can be kept.
        quota = maximum or 1000 / self.window.span_ms
        self._rate.record(1, quota, now_ms)
        return min(self._rate.throttle_ms(quota, now_ms), self.window.sample_ms)
