"""Processes of an exactly-once query that die at a given step, by SIGKILL.

Each call of the protocol to the cluster is two steps, before and after its effect; committing is
two steps for each transaction. The plan is a file: it reaches the Python workers of Spark as well.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StructField, StructType

from moldau.spark.exactly_once.decision import Decision, QueryName, TaskTransaction
from moldau.spark.exactly_once.errors import ExactlyOnceError
from moldau.spark.exactly_once.options import ExactlyOnceOptions, exactly_once_options
from moldau.spark.exactly_once.protocol import Fate, Ledger, Transactions
from moldau.spark.exactly_once.session import Session, fresh_session
from moldau.spark.exactly_once.task import Task, write_transaction
from moldau.spark.exactly_once.writer import ExactlyOnceStreamWriter
from moldau.spark.options import OptionError, write_options
from moldau.spark.source import MoldauDataSource

PLAN = "MOLDAU_TEST_FAULTS"
SCHEMA = StructType([StructField("value", BinaryType())])

# Arrow imports pandas here, and not in each process that is forked after this.
pa.array([b""], pa.binary())


def plan_fault(place: Path, step: str, *also_kill: int) -> None:
    """At the step, these processes die, and the one that is there. Once."""
    place.write_text(json.dumps({"step": step, "kill": also_kill}))


def reached(step: str) -> None:
    """Die here, if that is the plan."""
    place = Path(os.environ[PLAN])
    try:
        plan = json.loads(place.read_text())
    except FileNotFoundError:
        return
    if plan["step"] == step:
        place.unlink()
        for pid in (*plan["kill"], os.getpid()):
            os.kill(pid, signal.SIGKILL)


class FaultyLedger:
    def __init__(self, inner: Ledger) -> None:
        self._inner = inner

    async def take(self) -> Decision | None:
        reached("before taking")
        last = await self._inner.take()
        reached("after taking")
        return last

    async def peek(self) -> Decision | None:
        reached("before resuming")
        return await self._inner.peek()

    async def write(self, decision: Decision) -> None:
        reached("before deciding")
        await self._inner.write(decision)
        reached("after deciding")


class FaultyTransactions:
    def __init__(self, inner: Transactions) -> None:
        self._inner = inner

    async def seconds_left(self, wanted: Sequence[TaskTransaction]) -> list[float | None]:
        left = await self._inner.seconds_left(wanted)
        reached("after checking")
        return left

    async def commit(self, wanted: Sequence[TaskTransaction]) -> list[Fate]:
        fates = []
        for number, one in enumerate(wanted):
            reached(f"before commit {number}")
            fates += await self._inner.commit([one])
            reached(f"after commit {number}")
        return fates

    async def abort(self, wanted: Sequence[TaskTransaction]) -> None:
        for number, one in enumerate(wanted):
            reached(f"before abort {number}")
            await self._inner.abort([one])

    async def open_ids(self, begin: str) -> list[str]:
        reached("before sweeping")
        return await self._inner.open_ids(begin)

    async def abort_ids(self, ids: Collection[str]) -> None:
        await self._inner.abort_ids(ids)
        reached("after sweeping")


STEPS = (
    "task 0 before",
    "task 0 after",
    "task 1 after",
    "before taking",
    "after taking",
    "after checking",
    "before deciding",
    "after deciding",
    "before commit 0",
    "after commit 0",
    "before commit 1",
    "after commit 1",
    "before sweeping",
    "after sweeping",
)


class FaultySession(Session):
    def watch(self, ledger: Ledger, transactions: Transactions) -> tuple[Ledger, Transactions]:
        return FaultyLedger(ledger), FaultyTransactions(transactions)


class FaultyWriter(ExactlyOnceStreamWriter):
    session_kind = FaultySession

    def __init__(self, options: ExactlyOnceOptions, schema: StructType, plan: str) -> None:
        super().__init__(options, schema)
        self._plan = os.environ[PLAN] = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        os.environ[PLAN] = self._plan
        partition = Task.current("").partition
        reached(f"task {partition} before")
        message = super().write(iterator)
        reached(f"task {partition} after")
        return message


class FaultyDataSource(MoldauDataSource):
    """``format("faulty")``; the option ``path`` is the file with the plan."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        options = exactly_once_options(write_options(self.options))
        return FaultyWriter(options, schema, self.options["path"])


def register(spark: SparkSession) -> None:
    """For workers that cannot import the tests, the classes travel by value."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(FaultyDataSource)


def start_copy(
    spark: SparkSession, bootstrap: str, topic: str, copy: str, place: Path
) -> StreamingQuery:
    """Copies a topic exactly once, in small batches, to its present end."""
    server = {"kafka.bootstrap.servers": bootstrap}
    rows = (
        spark.readStream.format("moldau")
        .options(**server, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
        .load()
        .select("key", "value")
    )
    return (
        rows.writeStream.format("faulty")
        .options(**server, topic=copy, exactlyOnce="true", path=str(place / "plan"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def run_batch(
    options: Mapping[str, str],
    query: str,
    batch: int,
    parts: Sequence[Sequence[bytes]],
    plan: str,
    result: str,
) -> None:
    """One batch of a query without Spark: resume, tasks, commit. The target of a process.

    Why it has stopped is written to the file ``result``.
    """
    os.environ[PLAN] = plan
    settings = exactly_once_options(write_options(options))
    try:
        _run_batch(settings, QueryName(settings.prefix, query), batch, parts)
    except (ExactlyOnceError, OptionError) as error:
        Path(result).write_text(str(error))


def _run_batch(
    settings: ExactlyOnceOptions, query: QueryName, batch: int, parts: Sequence[Sequence[bytes]]
) -> None:
    session = FaultySession(settings, query)
    session.resume(batch)
    written: list[TaskTransaction] = []
    for number, values in enumerate(parts):
        reached(f"task {number} before")
        rows = pa.record_batch({"value": pa.array(values, pa.binary())})
        one = write_transaction(settings, SCHEMA, Task(query, batch, number, ""), iter([rows]))
        assert one is not None
        written.append(one)
        reached(f"task {number} after")
    try:
        session.commit(batch, written)
    except ExactlyOnceError:
        with fresh_session(settings, query, FaultySession) as another:
            another.abort(batch, written)
        raise
    session.close()
