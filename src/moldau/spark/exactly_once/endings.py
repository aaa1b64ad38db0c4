"""Ending the transactions of tasks, and looking at them."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, TypeVar

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.types import TransactionDescription
from moldau.client.cluster import Cluster
from moldau.client.errors import ProducerFencedError
from moldau.client.producer.prepared_transaction import end_prepared, fence_off
from moldau.errors import ErrorCode, KafkaError
from moldau.spark.exactly_once.decision import TaskTransaction
from moldau.spark.exactly_once.protocol import Fate

logger: Final = logging.getLogger("moldau.spark")

_AT_ONCE: Final = 32
_WITHIN: Final = 60.0
"""Seconds to keep on trying: coordinators move, brokers restart."""
_LIST_WITHIN: Final = 10.0
"""Seconds: a broker that has just died does not answer."""
_ONGOING: Final = "Ongoing"
_COMMITTED: Final = ("PrepareCommit", "CompleteCommit")
_FATES: Final = {
    "PrepareCommit": Fate.COMMITTED,
    "CompleteCommit": Fate.COMMITTED,
    "PrepareAbort": Fate.ABORTED,
    "CompleteAbort": Fate.ABORTED,
    "PrepareEpochFence": Fate.ABORTED,
}
_ENDED_ALREADY: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)

K = TypeVar("K")
V = TypeVar("V")


class ClusterTransactions:
    """``protocol.Transactions`` over a cluster."""

    def __init__(self, cluster: Cluster, admin: AsyncAdmin) -> None:
        self._cluster = cluster
        self._admin = admin

    async def seconds_left(self, wanted: Sequence[TaskTransaction]) -> list[float | None]:
        """By the clock of this machine: it should go with those of the brokers."""
        found = await self._describe([one.id for one in wanted])
        return [_left(one, found.get(one.id)) for one in wanted]

    async def commit(self, wanted: Sequence[TaskTransaction]) -> list[Fate]:
        return await _each(wanted, self._commit)

    async def abort(self, wanted: Sequence[TaskTransaction]) -> None:
        await _each(wanted, self._abort)

    async def open_ids(self, begin: str) -> list[str]:
        return await self._ids(begin, (_ONGOING,))

    async def committed_ids(self, begin: str) -> list[str]:
        return await self._ids(begin, _COMMITTED)

    async def abort_ids(self, ids: Collection[str]) -> None:
        async def abort(name: str) -> None:
            try:
                await fence_off(self._cluster, name, within=_WITHIN)
            except KafkaError as error:
                logger.warning("what %s has left open stays so: %s", name, error.message)

        await _each(list(ids), abort)

    async def _ids(self, begin: str, states: tuple[str, ...]) -> list[str]:
        try:
            async with asyncio.timeout(_LIST_WITHIN):
                listed = await self._admin.list_transactions(
                    states=states, pattern=f"{re.escape(begin)}.*"
                )
        except (KafkaError, TimeoutError) as error:
            # What depends on it: how long readers wait for what failed tasks have left, and
            # whether the loss of the ledger is noticed.
            logger.warning("transactions cannot be listed: %s", str(error) or "no answer")
            return []
        return [one.transactional_id for one in listed if one.transactional_id.startswith(begin)]

    async def _commit(self, transaction: TaskTransaction) -> Fate:
        try:
            await end_prepared(self._cluster, transaction.prepared, commit=True, within=_WITHIN)
        except KafkaError as error:
            if not _has_ended(error):
                raise
            found = (await self._describe([transaction.id])).get(transaction.id)
            return Fate.UNKNOWN if found is None else _FATES.get(found.state, Fate.UNKNOWN)
        return Fate.COMMITTED

    async def _abort(self, transaction: TaskTransaction) -> None:
        try:
            await end_prepared(self._cluster, transaction.prepared, commit=False, within=_WITHIN)
        except KafkaError as error:
            if not _has_ended(error):
                raise

    async def _describe(self, ids: Sequence[str]) -> dict[str, TransactionDescription]:
        """Those that the cluster knows."""
        found = {}
        for outcome in await self._admin.describe_transactions(ids) if ids else ():
            if outcome.error is None:
                found[outcome.name] = outcome.get()
            elif outcome.error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise outcome.error
        return found


def _has_ended(error: KafkaError) -> bool:
    return error.code in _ENDED_ALREADY or isinstance(error, ProducerFencedError)


def _left(transaction: TaskTransaction, found: TransactionDescription | None) -> float | None:
    if found is None or found.state != _ONGOING or found.start_time_ms is None:
        return None
    if (found.producer_id, found.producer_epoch) != (transaction.producer_id, transaction.epoch):
        return None
    return (found.start_time_ms + found.timeout_ms) / 1000 - time.time()


async def _each(items: Sequence[K], work: Callable[[K], Awaitable[V]]) -> list[V]:
    """All of them to their end, some at a time; then the first error is raised."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(item: K) -> V:
        async with room:
            return await work(item)

    done: list[Any] = await asyncio.gather(*map(one, items), return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
    return done
