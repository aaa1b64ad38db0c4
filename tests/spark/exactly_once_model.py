"""A cluster and a Spark in memory, for the exactly-once protocol: every await is a turn.

A scheduler runs drivers and tasks turn by turn, in a random order, and may end any of them at any
turn, let an old driver live on beside its successor, or let so much time pass that transactions
time out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.client.errors import ConnectionLostError
from moldau.errors import KafkaError
from moldau.spark.exactly_once.decision import Decision, QueryName, TaskTransaction
from moldau.spark.exactly_once.errors import (
    ExactlyOnceError,
    LostDecisionsError,
    LostTransactionError,
    ReplannedBatchError,
    SupersededError,
)
from moldau.spark.exactly_once.protocol import BatchCommitter, Fate

QUERY = QueryName("model", "query")
TIMEOUT = 1000.0
MARGIN = 50.0

Row = tuple[int, int, int, int]
"""Batch, partition, number, and the run that computed it, or 0 if all runs compute the same."""


class Turn:
    """Somebody else may run now, or nobody ever again."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass
class OpenTransaction:
    expires: float
    rows: list[Row] = field(default_factory=list)
    state: str = "open"


class ModelCluster:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.transactions: dict[str, OpenTransaction] = {}
        self.decisions: list[Decision] = []
        self.holder: object = None
        self.visible: Counter[Row] = Counter()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for transaction in self.transactions.values():
            if transaction.state == "open" and transaction.expires <= self.now:
                transaction.state = "aborted"

    def end(self, name: str, *, commit: bool) -> str:
        transaction = self.transactions[name]
        if transaction.state == "open":
            transaction.state = "committed" if commit else "aborted"
            if commit:
                self.visible.update(transaction.rows)
        return transaction.state


class ModelLedger:
    name = "decisions"

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self._taken = False
        self._last: Decision | None = None

    async def take(self) -> Decision | None:
        if not self._taken:
            await Turn()
            self._cluster.holder = self
            await Turn()
            self._last = await self.peek()
            self._taken = True
        return self._last

    async def peek(self) -> Decision | None:
        await Turn()
        decisions = self._cluster.decisions
        return decisions[-1] if decisions else None

    async def write(self, decision: Decision, *, within: float) -> None:
        await Turn()
        if self._cluster.holder is not self:
            raise SupersededError(decision.batch)
        self._cluster.decisions.append(decision)
        await Turn()
        self._last = decision


class ModelTransactions:
    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster

    async def seconds_left(self, wanted: Sequence[TaskTransaction]) -> list[float | None]:
        await Turn()
        found = [self._cluster.transactions[one.id] for one in wanted]
        return [one.expires - self._cluster.now if one.state == "open" else None for one in found]

    async def commit(self, wanted: Sequence[TaskTransaction]) -> list[Fate]:
        fates: dict[str, Fate] = {}
        for one in self._cluster.rng.sample(list(wanted), len(wanted)):
            await Turn()
            fates[one.id] = Fate(self._cluster.end(one.id, commit=True))
            await Turn()
        return [fates[one.id] for one in wanted]

    async def abort(self, wanted: Sequence[TaskTransaction]) -> None:
        await self.abort_ids([one.id for one in wanted])

    async def open_ids(self, begin: str) -> list[str]:
        await Turn()
        everything = self._cluster.transactions.items()
        return [name for name, one in everything if one.state == "open" and name.startswith(begin)]

    async def committed_ids(self, begin: str) -> list[str]:
        await Turn()
        return [
            name
            for name, one in self._cluster.transactions.items()
            if one.state == "committed" and name.startswith(begin)
        ]

    async def abort_ids(self, ids: Collection[str]) -> None:
        for name in ids:
            await Turn()
            self._cluster.end(name, commit=False)


class TaskFailedError(Exception):
    """An attempt that Spark repeats."""


@dataclass
class Plan:
    """What a life of a query may meet."""

    batches: int = 4
    partitions: int = 3
    crashes: float = 0.01
    zombies: float = 0.3
    """Of the crashes, those after which the driver lives on beside its successor."""
    task_failures: float = 0.05
    broken_connections: float = 0.003
    """Steps of a driver that fail before or after they have an effect."""
    speculation: float = 0.2
    timeouts: float = 0.0
    replay_lost: bool = False
    deterministic: bool = True


class ModelSpark:
    """Runs a query over its batches, through crashes, until it is done or has to stop."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.rng = random.Random(seed)
        self.plan = plan
        self.cluster = ModelCluster(self.rng)
        self.done = -1
        """The last batch in Spark's commit log."""
        self.crashes = 0
        self.runs = 0
        self.stopped_by: ExactlyOnceError | None = None
        self._tasks: list[Coroutine[Any, Any, None]] = []
        self._unique = 0

    def rows(self, batch: int, partition: int, run: int) -> list[Row]:
        if self.plan.deterministic:
            return [(batch, partition, number, 0) for number in range((batch + partition) % 3)]
        count = random.Random(f"{batch} {partition} {run}").randrange(3)
        return [(batch, partition, number, run) for number in range(count)]

    def live(self, most_turns: int = 50_000) -> None:
        drivers = [self._driver()]
        try:
            self._live(drivers, most_turns)
        finally:
            for one in (*drivers, *self._tasks):
                one.close()

    def _live(self, drivers: list[Coroutine[Any, Any, None]], most_turns: int) -> None:
        for _ in range(most_turns):
            if self.stopped_by is not None or self.done == self.plan.batches - 1:
                return
            if not drivers:
                drivers.append(self._driver())
            self._maybe_time_passes()
            if self.rng.random() < self.plan.crashes:
                self.crashes += 1
                if self.rng.random() >= self.plan.zombies:
                    drivers.pop().close()
                    for task in [one for one in self._tasks if self.rng.random() < 0.5]:
                        self._tasks.remove(task)
                        task.close()
                drivers.append(self._driver())
            living: list[Coroutine[Any, Any, None]] = self.rng.choice([drivers, self._tasks])
            if living:
                self._run_one(living)
        raise AssertionError(f"not done after {most_turns} turns, {self.crashes} crashes")

    def _run_one(self, living: list[Coroutine[Any, Any, None]]) -> None:
        # An old driver that lives on is slow: its successor may be batches ahead.
        one = living[-1] if self.rng.random() < 0.7 else self.rng.choice(living)
        try:
            if living is not self._tasks and self.rng.random() < self.plan.broken_connections:
                one.throw(ConnectionLostError("broken"))
            else:
                one.send(None)
        except (StopIteration, KafkaError, TaskFailedError):
            living.remove(one)
        except (LostDecisionsError, ReplannedBatchError):
            raise  # no decision is ever lost here, and no batch planned twice
        except ExactlyOnceError as error:
            living.remove(one)
            if isinstance(error, LostTransactionError) and not self.plan.replay_lost:
                self.stopped_by = error  # and otherwise restarted by its user

    def _maybe_time_passes(self) -> None:
        self.cluster.pass_time(0.01)
        if self.rng.random() < self.plan.timeouts:
            self.cluster.pass_time(self.rng.choice([TIMEOUT / 2, TIMEOUT, TIMEOUT - MARGIN]))

    async def _driver(self) -> None:
        self.runs += 1
        run = self.runs
        committer = self._committer()
        while self.done < self.plan.batches - 1:
            batch = self.done + 1
            written: dict[int, TaskTransaction | None] = {}
            for partition in range(self.plan.partitions):
                self._start(batch, partition, run, written)
                if self.rng.random() < self.plan.speculation:
                    self._start(batch, partition, run, written)
            if self.rng.random() < 0.5:
                await committer.resume(batch)
            while len(written) < self.plan.partitions:
                await Turn()
            new = [one for one in written.values() if one is not None]
            try:
                await committer.commit(batch, new, f"plan {batch}")
            except (ExactlyOnceError, KafkaError):
                await self._committer().abort(batch, new)
                raise
            await Turn()
            if self.done >= batch:
                return  # another driver has written the commit log: Spark stops this one
            self.done = batch

    def _committer(self) -> BatchCommitter:
        return BatchCommitter(
            QUERY,
            ModelLedger(self.cluster),
            ModelTransactions(self.cluster),
            margin=MARGIN,
            replay_lost=self.plan.replay_lost,
        )

    def _start(
        self, batch: int, partition: int, run: int, written: dict[int, TaskTransaction | None]
    ) -> None:
        self._tasks.append(self._attempts(batch, partition, run, written))

    async def _attempts(
        self, batch: int, partition: int, run: int, written: dict[int, TaskTransaction | None]
    ) -> None:
        while partition not in written:
            try:
                transaction = await self._attempt(batch, partition, run)
            except TaskFailedError:
                continue
            await Turn()
            written.setdefault(partition, transaction)  # the first attempt counts

    async def _attempt(self, batch: int, partition: int, run: int) -> TaskTransaction | None:
        rows = self.rows(batch, partition, run)
        if not rows:
            return None
        self._unique += 1
        name = QUERY.transactional_id(batch, partition, str(self._unique))
        await Turn()
        mine = OpenTransaction(self.cluster.now + TIMEOUT)
        self.cluster.transactions[name] = mine
        for row in rows:
            await Turn()
            if mine.state != "open" or self.rng.random() < self.plan.task_failures:
                raise TaskFailedError
            mine.rows.append(row)
        return TaskTransaction(name, self._unique, 0, True, partition, len(rows))
