"""How many connections are let in: ``max.connections`` and ``max.connections.per.ip``, and how many
per second: ``max.connection.creation.rate`` and what each address may open.

One object is shared by all listeners of a broker. As in Kafka, a broker that is full or gets too
many at once leaves new connections waiting in the listen backlog; an address that has too many is
refused, one that opens them too fast is refused after a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from moldau.config.options.network import NetworkOptions
from moldau.config.options.quotas import QuotaOptions
from moldau.quotas.entity import canonical_address
from moldau.quotas.manager import ClientQuotaManager
from moldau.quotas.meters import Rate, Window

UNLIMITED: Final = NetworkOptions.max_connection_creation_rate.default
DEFAULT_WINDOW: Final = Window(
    QuotaOptions.quota_window_num.default, QuotaOptions.quota_window_size_seconds.default * 1000
)


class ConnectionQuotas:
    """Counts connections, in all and per address."""

    def __init__(
        self,
        max_connections: int = NetworkOptions.max_connections.default,
        max_per_ip: int = NetworkOptions.max_connections_per_ip.default,
        overrides: Mapping[str, int] | None = None,
        max_rate: int = NetworkOptions.max_connection_creation_rate.default,
        *,
        rates: ClientQuotaManager[Rate] | None = None,
    ) -> None:
        """``overrides``: ``max.connections.per.ip.overrides``, address to limit; ``rates``: the
        ``connection_creation_rate`` of addresses (KIP-612).
        """
        self._rates = rates
        self._window = rates.window if rates is not None else DEFAULT_WINDOW
        self._rate = Rate(self._window)
        self._per_ip: dict[str, int] = {}
        self._waiters: list[Callable[[], object]] = []
        self.count = 0
        self.set_limits(max_connections, max_per_ip, overrides or {}, max_rate)

    def set_limits(
        self, max_connections: int, max_per_ip: int, overrides: Mapping[str, int], max_rate: int
    ) -> None:
        """Other limits from now on; connections that are open stay open."""
        self._max_connections = max_connections
        self._max_per_ip = max_per_ip
        self._overrides = dict(overrides)
        self._max_rate = max_rate
        if not self.is_full:
            self._wake()

    @property
    def is_full(self) -> bool:
        return self.count >= self._max_connections

    def limit_of(self, ip: str) -> int:
        return self._overrides.get(ip, self._max_per_ip)

    def accepted(self, now_ms: int) -> int:
        """A connection has left the backlog, whatever becomes of it; returns for how long the next
        one has to stay there.
        """
        if self._max_rate == UNLIMITED:
            return 0
        # None at all is no rate: one per window is the least that can be kept.
        quota = self._max_rate or 1000 / self._window.span_ms
        self._rate.record(1, quota, now_ms)
        return min(self._rate.throttle_ms(quota, now_ms), self._window.sample_ms)

    def throttle_ms(self, ip: str, now_ms: int) -> int:
        """Returns for how long to let a new connection of an address wait before it is closed, 0 if
        it may come in.
        """
        rates = self._rates
        if rates is None or not rates.is_active:
            return 0
        address = (canonical_address(ip),)
        throttle_ms = rates.record(address, 1, now_ms)
        if throttle_ms:
            rates.record(address, -1, now_ms)  # it will not come in
        return min(throttle_ms, rates.window.sample_ms)

    def opened(self, ip: str) -> bool:
        """Count a new connection; False, and not counted, when its address has enough already."""
        count = self._per_ip.get(ip, 0)
        if count >= self.limit_of(ip):
            return False
        self._per_ip[ip] = count + 1
        self.count += 1
        return True

    def closed(self, ip: str) -> None:
        """The end of a connection for which ``opened`` was true."""
        self.count -= 1
        left = self._per_ip[ip] - 1
        if left:
            self._per_ip[ip] = left
        else:
            del self._per_ip[ip]
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def when_free(self, callback: Callable[[], object]) -> None:
        """Call back once when a connection has closed or the limit was raised."""
        self._waiters.append(callback)
