"""Processes of an exactly-once query that die at a given step, by SIGKILL.

Each call of the protocol to the cluster is two steps, before and after its effect; committing is
two steps for each transaction. The plan is a directory with a file for each fault: it reaches the
Python workers of Spark as well.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StructField, StructType

from moldau.errors import KafkaError
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


class Fault(NamedTuple):
    """What happens at a step: a process dies, there or a little later, or it waits, or nothing."""

    step: str
    who: Literal["worker", "driver", "executor", "waiter", "nobody"] = "worker"
    """Who dies: the process that is at the step, and with it the driver, or the executor's JVM.

    A waiter waits; with nobody the plan only goes on from there.
    """
    after: float = 0.0
    """Seconds, for a moment that no step names."""


def plan_faults(place: Path, faults: Iterable[Fault]) -> None:
    """These happen in their order, each once, whichever process gets there."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for number, fault in enumerate(faults):
        (place / f"{number:04}").write_text(json.dumps(fault))


def faults_left(place: Path) -> list[Path]:
    return sorted(place.glob("[0-9]*"))


def waiting(place: Path) -> list[Path]:
    """The signs of those who wait, each until its sign is taken away."""
    return sorted(place.glob("waiting at *"))


def reached(step: str) -> None:
    """Die here, if that is the plan."""
    place = Path(os.environ[PLAN])
    try:
        first = faults_left(place)[0]
        fault = Fault(*json.loads(first.read_text()))
        if fault.step != step:
            return
        first.unlink()
    except (IndexError, FileNotFoundError):
        return  # there is none, or another process was here first
    if fault.after:
        later = threading.Timer(fault.after, _strike, (place, fault))
        later.daemon = True
        later.start()
    else:
        _strike(place, fault)


def _strike(place: Path, fault: Fault) -> None:
    if fault.who == "nobody":
        return
    if fault.who == "waiter":
        _wait(place / f"waiting at {fault.step}")
        return
    victims = [os.getpid()]
    if fault.who == "driver":
        victims = [*map(int, (place / "driver").read_text().split()), *victims]
    if fault.who == "executor":
        victims = [_parent(_parent(os.getpid())), *victims]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)


def _wait(sign: Path) -> None:
    """Until a test has seen the sign and takes it away; who dies meanwhile leaves it there."""
    sign.touch()
    deadline = time.monotonic() + 300
    while sign.exists():
        if time.monotonic() > deadline:
            sign.unlink()
            raise TimeoutError(sign.name)
        time.sleep(0.01)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def watched(part: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, and a step after each of their batches is on its way."""
    for batch in batches:
        yield batch
        reached(f"task {part} sending")


class FaultyLedger:
    def __init__(self, inner: Ledger) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    async def take(self) -> Decision | None:
        reached("before taking")
        last = await self._inner.take()
        reached("after taking")
        return last

    async def peek(self) -> Decision | None:
        reached("before resuming")
        return await self._inner.peek()

    async def write(self, decision: Decision, *, within: float) -> None:
        reached("before deciding")
        await self._inner.write(decision, within=within)
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

    async def committed_ids(self, begin: str) -> list[str]:
        return await self._inner.committed_ids(begin)

    async def abort_ids(self, ids: Collection[str]) -> None:
        await self._inner.abort_ids(ids)
        reached("after sweeping")


STEPS = (
    "task 0 before",
    "task 0 sending",
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
        message = super().write(watched(partition, iterator))
        reached(f"task {partition} after")
        return message


class FaultyDataSource(MoldauDataSource):
    """``format("faulty")``; the option ``path`` is the directory of the plan."""

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
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(FaultyDataSource)


def held(plan: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with a column of partitions; a step after the first batch of each."""
    os.environ[PLAN] = plan
    for batch in batches:
        yield batch
        reached(f"rows of {batch.column('partition')[0].as_py()}")


def start_copy(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    copy: str,
    place: Path,
    rows: int = 20,
    **options: str,
) -> StreamingQuery:
    """Copies a topic exactly once, in batches of so many rows, to its present end."""
    server = {"kafka.bootstrap.servers": bootstrap}
    records = (
        spark.readStream.format("moldau")
        .options(**server, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=rows)
        .load()
        .select("value", "partition")
    )
    return (
        records.writeStream.format("faulty")
        .options(**server, topic=copy, exactlyOnce="true", path=str(place / "plan"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .options(**{f"exactlyOnce.{name}": value for name, value in options.items()})
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
    written = write_parts(settings, query, batch, parts)
    try:
        session.commit(batch, written)
    except (ExactlyOnceError, KafkaError):
        with fresh_session(settings, query, FaultySession) as another:
            another.abort(batch, written)
        raise
    session.close()


def write_parts(
    settings: ExactlyOnceOptions, query: QueryName, batch: int, parts: Sequence[Sequence[bytes]]
) -> list[TaskTransaction]:
    """What the tasks of a batch do."""
    written: list[TaskTransaction] = []
    for number, values in enumerate(parts):
        reached(f"task {number} before")
        rows = pa.record_batch({"value": pa.array(values, pa.binary())})
        one = write_transaction(
            settings, SCHEMA, Task(query, batch, number, ""), watched(number, iter([rows]))
        )
        assert one is not None
        written.append(one)
        reached(f"task {number} after")
    return written
