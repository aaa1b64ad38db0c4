"""Spark: ``format("moldau")`` beside the official connector, in one session, against one broker.

Both sides do the same work with their default settings and with tuned ones (8 MB fetches, larger
batches). CRCs are checked and producers are idempotent with acks=all on both sides. The first run
of each job, on a small topic, is the cold one; that topic is used until all jobs are steady.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bench.figures import Runs
from bench.processes import family_cpu_seconds
from bench.report import Goal, Row, Table, compare
from bench.session import Session
from bench.targets import Moldau, brokers
from bench.warming import warm
from moldau.client.admin import Admin, NewTopic, OffsetSpec
from moldau.client.producer.producer import Producer
from moldau.model import TopicPartition
from moldau.spark.session import spark_session

ROOT = Path(__file__).parents[1]


class Scale(NamedTuple):
    records: int
    warming_records: int
    rounds: int
    warming_s: float


FULL = Scale(4_000_000, 400_000, 3, 240)
QUICK = Scale(20_000, 2000, 1, 0)

LOAD, WARMING_LOAD = "load", "warming-load"
PARTITIONS = 4
MASTER = "local[2]"
RECORD_BYTES = 100
CHUNK = 10_000


NO_SLOWER = Goal(at_most_ratio=1)


class Side(NamedTuple):
    name: str
    """As the report's column has it."""
    format: str


CONNECTOR = "official connector 4.2.0"
OURS, THEIRS = Side("Moldau", "moldau"), Side(CONNECTOR, "kafka")

TUNED_READ = {
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
}
TUNED_WRITE = {
    "kafka.batch.size": str(512 * 1024),
    "kafka.linger.ms": "50",
    "kafka.buffer.memory": str(64 * 1024 * 1024),
    "kafka.send.buffer.bytes": str(1024 * 1024),
}
TUNED_ARROW_ROWS = "50000"
DEFAULT_ARROW_ROWS = "10000"

WORK = {
    "count": "count",
    "parquet": "to Parquet",
    "stream_parquet": "AvailableNow to Parquet",
    "write": "batch write",
    "stream_write": "stream write",
}


def rows(scale: Scale) -> list[Row]:
    cold = [
        Row(f"{key}_cold", f"{scale.warming_records:,} records, {title}, cold", "s", 2)
        for key, title in WORK.items()
    ]
    return cold + [
        row
        for how in ("default", "tuned")
        for key, title in WORK.items()
        for row in (
            Row(f"{key}_{how}", f"{scale.records:,} records, {title}, {how}", "s", 2, NO_SLOWER),
            Row(f"{key}_{how}_cpu", "the same: CPU of Spark and its workers", "s", 2),
        )
    ]


@dataclass(frozen=True)
class Job:
    spark: SparkSession
    bootstrap: str
    format: str
    records: int
    tuned: bool
    place: Path
    topic: str = LOAD
    """To read; a Parquet directory of the same name is there to write from."""

    def run(self, key: str) -> float:
        """Seconds that the work took; its result is checked."""
        limit = TUNED_ARROW_ROWS if self.tuned else DEFAULT_ARROW_ROWS
        self.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", limit)
        name = f"{key}-{self.format}-{self.tuned}-{time.monotonic_ns()}"
        work: Callable[[str], int] = getattr(self, f"_{key}")
        started = time.monotonic()
        done = work(name)
        seconds = time.monotonic() - started
        if done not in (self.records, -1):
            raise RuntimeError(f"{name}: {done} records instead of {self.records}")
        return seconds

    def source(self, reader: object) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            **(TUNED_READ if self.tuned else {}),
        }
        frame: DataFrame = reader.format(self.format).options(**options).load()  # type: ignore[attr-defined]
        return frame

    def _sink(self, name: str) -> dict[str, str]:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS)])
        more = TUNED_WRITE if self.tuned else {}
        return {"kafka.bootstrap.servers": self.bootstrap, "topic": name, **more}

    def _count(self, _name: str) -> int:
        return self.source(self.spark.read).count()

    def _parquet(self, name: str) -> int:
        self.source(self.spark.read).write.parquet(str(self.place / name))
        return -1

    def _stream_parquet(self, name: str) -> int:
        options = {
            "path": str(self.place / name),
            "checkpointLocation": str(self.place / f"{name}-checkpoint"),
        }
        stream = self.source(self.spark.readStream).writeStream.format("parquet")
        query = stream.options(**options).trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(one["numInputRows"] for one in query.recentProgress)

    def _write(self, name: str) -> int:
        options = self._sink(name)
        values = self.spark.read.parquet(str(self.place / self.topic))
        values.write.format(self.format).options(**options).mode("append").save()
        return self._stored(name)

    def _stream_write(self, name: str) -> int:
        options = self._sink(name)
        values = self.spark.readStream.schema("value BINARY").parquet(str(self.place / self.topic))
        query = (
            values.writeStream.format(self.format)
            .options(**options, checkpointLocation=str(self.place / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self._stored(name)

    def _stored(self, name: str) -> int:
        """The records of a topic, which is deleted: the next one needs the room."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            partitions = [TopicPartition(name, number) for number in range(PARTITIONS)]
            ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
            admin.delete_topics([name])
        return sum(end.offset for end in ends.values())


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    sides = [OURS, THEIRS] if session.has_kafka else [OURS]
    runs = Runs()
    with TemporaryDirectory(prefix="moldau-bench-") as directory, brokers([Moldau]) as (broker,):
        broker.start()
        place = Path(directory)
        spark = new_spark(directory, jars() if session.has_kafka else [])
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        jvm = gateway.proc.pid
        try:
            for topic, records in ((WARMING_LOAD, scale.warming_records), (LOAD, scale.records)):
                _load(spark, broker.address, place, topic, records)
            session.say(f"{scale.records:,} records loaded")
            notes = _warm(spark, broker.address, place, scale, sides, runs)
            session.say(notes[-1])
            for turn, key in itertools.product(range(scale.rounds), WORK):
                for tuned in (False, True):
                    for side in sides if turn % 2 == 0 else sides[::-1]:
                        job = Job(spark, broker.address, side.format, scale.records, tuned, place)
                        row = f"{key}_{'tuned' if tuned else 'default'}"
                        before = family_cpu_seconds(jvm)
                        seconds = job.run(key)
                        session.say(f"{row}, {side.name}: {seconds:.2f} s")
                        runs.add(row, side, seconds)
                        runs.add(f"{row}_cpu", side, family_cpu_seconds(jvm) - before)
        finally:
            spark.stop()
    title = f"Spark, {MASTER}, one Moldau broker, medians of {scale.rounds} rounds"
    return [compare(title, rows(scale), runs, notes, theirs=CONNECTOR)]


def jars() -> list[Path]:
    """Those of the official connector."""
    found = sorted((ROOT / ".cache").glob("spark-connector-*/*.jar"))
    if not found:
        raise RuntimeError("the connector's jars are not there: make spark-connector")
    return found


def new_spark(
    directory: str, jars: list[Path], config: Mapping[str, str] | None = None
) -> SparkSession:
    return spark_session(
        "moldau bench",
        master=MASTER,
        config={
            **(config or {}),
            **({"spark.jars": ",".join(map(str, jars))} if jars else {}),
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.local.dir": directory,
            "spark.ui.showConsoleProgress": "false",
        },
    )


def _warm(
    spark: SparkSession, bootstrap: str, place: Path, scale: Scale, sides: list[Side], runs: Runs
) -> list[str]:
    """Runs every job on the small topic until its time is steady; the first one is cold."""

    def seconds_of(key: str, side: Side) -> Callable[[], float]:
        job = Job(spark, bootstrap, side.format, scale.warming_records, False, place, WARMING_LOAD)
        first = job.run(key)
        runs.add(f"{key}_cold", side, first)
        return lambda: job.run(key)

    work = {f"{title}, {side.name}": seconds_of(key, side)
            for key, title in WORK.items() for side in sides}  # fmt: skip
    return [warm(work, scale.warming_s).text("Spark")]


def _load(spark: SparkSession, bootstrap: str, place: Path, topic: str, records: int) -> None:
    """The topic to read and the Parquet files to write from."""
    settings = {"bootstrap.servers": bootstrap, "batch.size": 262_144}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    with Producer(settings) as producer:
        for chunk in range(0, records, CHUNK):
            count = min(CHUNK, records - chunk)
            text = os.urandom(RECORD_BYTES * count)
            values = [text[at : at + RECORD_BYTES] for at in range(0, len(text), RECORD_BYTES)]
            producer.send_many(topic, values, partition=(chunk // CHUNK) % PARTITIONS)
    job = Job(spark, bootstrap, OURS.format, records, False, place, topic)
    job.source(spark.read).select("value").write.parquet(str(place / topic))
