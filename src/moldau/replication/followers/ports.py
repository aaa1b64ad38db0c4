"""What following takes from the broker: its logs, its place in the cluster, and ways to others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from moldau.log import PartitionLog
from moldau.machine import Clock
from moldau.net import BufferPool
from moldau.net.broker_connection import BrokerConnection


class FollowerLogs(Protocol):
    """What is done to the logs of followers, durably; ``LogManager`` does it.

    ``is_wanted`` is asked right before a log is cut. KAFKA_STORAGE_ERROR if the disk refuses.
    """

    async def flush(self, log: PartitionLog) -> None: ...

    async def make_durable(self, log: PartitionLog) -> None:
        """As ``flush``, and it is written down that it is so."""
        ...

    async def truncate_to(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool]
    ) -> bool: ...

    async def truncate_fully_and_start_at(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool]
    ) -> bool: ...

    async def checkpoint_high_watermarks(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSettings:
    """Those of the broker that are about following."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    timeout_s: float
    """For an answer of the leader, on top of the time that it may wait."""
    backoff_s: float
    """The longest pause after something went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerPorts:
    node_id: int
    broker_epoch: Callable[[], int]
    """Of this life of the broker, as it is registered (KIP-903)."""
    clock: Clock
    logs: FollowerLogs
    connect: Callable[[int, BufferPool], Awaitable[BrokerConnection]]
    """Opens a connection to the broker of that id, for whoever asks alone, with answers in buffers
    of the pool; raises KafkaError.
    """
    settings: FetcherSettings
    fetchers_per_leader: Callable[[], int]
