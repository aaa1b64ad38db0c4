"""The connections of a committer, kept over the batches of a query.

Spark makes a writer for each batch, but in the same worker process as long as all goes well. After
any failure the session is dropped: the next one takes the ledger anew and learns what is decided.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.blocking import LoopThread
from moldau.client.cluster import Cluster
from moldau.client.errors import UnsupportedApiError
from moldau.client.settings import ProducerSettings
from moldau.errors import KafkaError
from moldau.spark.exactly_once.checkpoint import plan_of
from moldau.spark.exactly_once.decision import QueryName, TaskTransaction
from moldau.spark.exactly_once.endings import ClusterTransactions
from moldau.spark.exactly_once.errors import ExactlyOnceError
from moldau.spark.exactly_once.ledger import TopicLedger
from moldau.spark.exactly_once.options import ExactlyOnceOptions
from moldau.spark.exactly_once.protocol import BatchCommitter, Ledger, Transactions
from moldau.wire.api import ApiKey

_NEEDED: Final = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.END_TXN,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
)


_SWEEP_AFTER: Final = (3.0, 7.0, 20.0)
"""Seconds, one after the other. Spark kills tasks that lost, and waits for two seconds first."""


class Session:
    """A ``BatchCommitter`` for blocking code."""

    def __init__(self, options: ExactlyOnceOptions, query: QueryName) -> None:
        self._options = options
        self._query = query
        self._thread = LoopThread("exactly-once committer")
        self._cluster: Cluster | None = None
        self._ledger: TopicLedger | None = None
        self._committer: BatchCommitter | None = None
        self._sweeps: asyncio.Task[None] | None = None

    def commit(self, batch: int, new: list[TaskTransaction]) -> None:
        plan = plan_of(self._options.write.checkpoint_location, batch)
        self._thread.run(self._commit(batch, new, plan))

    def abort(self, batch: int, new: list[TaskTransaction]) -> None:
        self._thread.run(self._abort(batch, new))

    def resume(self, batch: int) -> None:
        self._thread.run(self._resume(batch))

    def close(self) -> None:
        """Quietly: whatever went wrong before is what counts."""
        with contextlib.suppress(KafkaError):
            self._thread.run(self._close())
        self._thread.stop()

    def watch(self, ledger: Ledger, transactions: Transactions) -> tuple[Ledger, Transactions]:
        """Whoever wants to know of the steps puts something between."""
        return ledger, transactions

    async def _commit(self, batch: int, new: list[TaskTransaction], plan: str) -> None:
        committer = await self._open()
        self._cancel_sweeps()
        await committer.commit(batch, new, plan)
        self._sweeps = asyncio.create_task(_sweep_again(committer, batch))

    async def _abort(self, batch: int, new: list[TaskTransaction]) -> None:
        await (await self._open()).abort(batch, new)

    async def _resume(self, batch: int) -> None:
        await (await self._open()).resume(batch)

    async def _open(self) -> BatchCommitter:
        if self._committer is None:
            options = self._options
            self._cluster = Cluster(ProducerSettings(options.client))
            await check_transactions(self._cluster)
            admin = AsyncAdmin.over(self._cluster, timeout=60.0)
            self._ledger = TopicLedger(options.client, options.topic, self._query, admin)
            ledger, transactions = self.watch(
                self._ledger, ClusterTransactions(self._cluster, admin)
            )
            self._committer = BatchCommitter(
                self._query,
                ledger,
                transactions,
                margin=options.margin,
                replay_lost=options.on_lost == "replay",
            )
        return self._committer

    def _cancel_sweeps(self) -> None:
        if self._sweeps is not None:
            self._sweeps.cancel()
            self._sweeps = None

    async def _close(self) -> None:
        self._cancel_sweeps()
        if self._ledger is not None:
            await self._ledger.close()
        if self._cluster is not None:
            await self._cluster.close()


async def _sweep_again(committer: BatchCommitter, batch: int) -> None:
    """For attempts that were still writing when their batch was committed, if none follows."""
    for seconds in _SWEEP_AFTER:
        await asyncio.sleep(seconds)
        await committer.sweep(batch)


async def check_transactions(cluster: Cluster) -> None:
    """Refuse a cluster without transactions, before it is asked for one in vain."""
    await cluster.start()
    connection = await cluster.any_connection()
    try:
        for api in _NEEDED:
            connection.version_of(api)
    except UnsupportedApiError as error:
        raise ExactlyOnceError(
            f"exactlyOnce needs transactions, and this cluster has none: {error.message}"
        ) from None


@contextlib.contextmanager
def fresh_session(
    options: ExactlyOnceOptions, query: QueryName, kind: type[Session] = Session
) -> Iterator[Session]:
    """A session for once."""
    session = kind(options, query)
    try:
        yield session
    finally:
        session.close()


_kept: Final[dict[QueryName, tuple[ExactlyOnceOptions, Session]]] = {}


@contextlib.contextmanager
def kept_session(
    options: ExactlyOnceOptions, query: QueryName, kind: type[Session] = Session
) -> Iterator[Session]:
    """The session of the last batch, if nothing went wrong with it."""
    known = _kept.pop(query, None)
    if known is not None and known[0] != options:
        known[1].close()
        known = None
    session = kind(options, query) if known is None else known[1]
    try:
        yield session
    except BaseException:
        session.close()
        raise
    _kept[query] = (options, session)
