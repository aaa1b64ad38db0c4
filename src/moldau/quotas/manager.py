"""Whose quota holds for a client, and what of it is used: one manager for each quota key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import getsizeof
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from moldau.quotas.entity import CLIENT_ID, IP, USER, ClientQuotaEntity
from moldau.quotas.meters import Meter, Window

M = TypeVar("M", bound=Meter)

FEW_CLIENTS: Final = 1000
"""Idle meters are looked for when there are more clients, or more meters (which outlive a change of
quotas); then whenever their number has doubled.
"""

MOST_BYTES: Final = 16 * 1024 * 1024
"""What meters and the names of clients take at most. Beyond it those that came first are forgotten:
their clients begin anew.
"""
_METER_BYTES: Final = 1000

Client: TypeAlias = tuple[str, ...]
"""A user and a client id, or an address."""
Sharers: TypeAlias = tuple[str | None, ...]
"""The same, with None where a quota does not tell one from another."""
Levels: TypeAlias = Callable[[Client], Iterable[tuple[dict[str, str | None], Sharers]]]
"""The entities whose quotas hold for a client, the most specific one first, and who shares them."""


def user_and_client_levels(client: Client) -> Iterable[tuple[dict[str, str | None], Sharers]]:
    """Who shares a user's quota shares it over all client ids, and the other way round."""
    user, client_id = client
    yield {USER: user, CLIENT_ID: client_id}, client
    yield {USER: user, CLIENT_ID: None}, client
    yield {USER: user}, (user, None)
    yield {USER: None, CLIENT_ID: client_id}, client
    yield {USER: None, CLIENT_ID: None}, client
    yield {USER: None}, (user, None)
    yield {CLIENT_ID: client_id}, (None, client_id)
    yield {CLIENT_ID: None}, (None, client_id)


def address_levels(client: Client) -> Iterable[tuple[dict[str, str | None], Sharers]]:
    (address,) = client
    yield {IP: address}, client
    yield {IP: None}, client


class _Share(NamedTuple, Generic[M]):
    """A client's quota, and the meter that it shares with others."""

    quota: float
    meter: M


class ClientQuotaManager(Generic[M]):
    """Of the quotas that match a client the most specific one holds."""

    def __init__(
        self,
        key: str,
        new_meter: Callable[[Window], M],
        window: Window,
        levels: Levels = user_and_client_levels,
    ) -> None:
        self.window = window
        self._key = key
        self._new_meter = new_meter
        self._levels = levels
        self._quotas: dict[ClientQuotaEntity, float] = {}
        self._meters: dict[Sharers, M] = {}
        self._shares: dict[Client, _Share[M] | None] = {}
        self._many = FEW_CLIENTS
        self._bytes = 0

    @property
    def is_active(self) -> bool:
        """Whether anybody has a quota."""
        return bool(self._quotas)

    def update(self, entity: ClientQuotaEntity, quotas: Mapping[str, float]) -> None:
        """Other quotas for an entity; what was used of the one before counts on."""
        if self._key in quotas:
            self._quotas[entity] = quotas[self._key]
        elif entity in self._quotas:
            del self._quotas[entity]
        self._shares.clear()

    def record(self, client: Client, value: float, now_ms: int) -> int:
        """Count something that the client did. Returns for how long it has to hold back, in
        milliseconds.
        """
        share = self._share(client, now_ms)
        if share is None:
            return 0
        share.meter.record(value, share.quota, now_ms)
        return share.meter.throttle_ms(share.quota, now_ms)

    def throttle_ms(self, client: Client, now_ms: int) -> int:
        """Returns for how long a client has to hold back for what it has done already."""
        share = self._share(client, now_ms)
        return 0 if share is None else share.meter.throttle_ms(share.quota, now_ms)

    def quota(self, client: Client, now_ms: int) -> float | None:
        """Returns the quota that holds for a client."""
        share = self._share(client, now_ms)
        return None if share is None else share.quota

    def max_in_window(self, client: Client, now_ms: int) -> float | None:
        """Returns what a client that was idle may do at once; more would always be throttled."""
        quota = self.quota(client, now_ms)
        if quota is None:
            return None
        return quota * (self.window.samples - 1) * self.window.sample_ms / 1000

    def _share(self, client: Client, now_ms: int) -> _Share[M] | None:
        try:
            return self._shares[client]
        except KeyError:
            pass
        if max(len(self._shares), len(self._meters)) >= self._many or self._bytes > MOST_BYTES:
            self._forget_idle(now_ms)
        found = self._find(client)
        share = None
        if found is not None:
            quota, sharers = found
            meter = self._meters.get(sharers)
            if meter is None:
                meter = self._meters[sharers] = self._new_meter(self.window)
            share = _Share(quota, meter)
        self._shares[client] = share
        self._bytes += _size(client)
        return share

    def _find(self, client: Client) -> tuple[float, Sharers] | None:
        for entries, sharers in self._levels(client):
            quota = self._quotas.get(ClientQuotaEntity.of(entries))
            if quota is not None:
                return quota, sharers
        return None

    def _forget_idle(self, now_ms: int) -> None:
        """Client ids are the clients' own invention: what is kept of them has to end some time."""
        self._shares.clear()
        self._meters = {
            sharers: meter for sharers, meter in self._meters.items() if not meter.is_idle(now_ms)
        }
        self._bytes = sum(map(_size, self._meters))
        oldest = iter(tuple(self._meters))
        while self._bytes > MOST_BYTES // 2:
            sharers = next(oldest)
            del self._meters[sharers]
            self._bytes -= _size(sharers)
        self._many = max(FEW_CLIENTS, 2 * len(self._meters))


def _size(names: Sharers) -> int:
    """What is kept of a client, in bytes, about."""
    return _METER_BYTES + sum(map(getsizeof, names))
