"""Spark: ``format("moldau")`` beside the official connector, in one session, against one broker.

Both sides do the same work with their default settings and with tuned ones (8 MB fetches, larger
batches). CRCs are checked and producers are idempotent with acks=all on both sides.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bench.broker import Runs
from bench.report import Goal, Row
from bench.targets import Moldau
from moldau.client.admin import Admin, NewTopic, OffsetSpec
from moldau.client.producer.producer import Producer
from moldau.model import TopicPartition
from moldau.spark.session import spark_session

ROOT = Path(__file__).parents[1]
FULL = (4_000_000, 3)
QUICK = (200_000, 1)
"""Records and rounds."""

PARTITIONS = 4
RECORD_BYTES = 100
CHUNK = 10_000


class Side(NamedTuple):
    name: str
    """As the report's column has it."""
    format: str


SIDES = (Side("Moldau", "moldau"), Side("Apache Kafka", "kafka"))

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


def rows(records: int) -> list[Row]:
    return [
        Row(f"{key}_{how}", f"{records:,} records, {title}, {how}", "s", 2, Goal(at_most_ratio=1))
        for how in ("default", "tuned")
        for key, title in WORK.items()
    ]


@dataclass(frozen=True)
class Job:
    spark: SparkSession
    bootstrap: str
    format: str
    records: int
    tuned: bool
    place: Path

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

    def _source(self, reader: object) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": "load",
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
        return self._source(self.spark.read).count()

    def _parquet(self, name: str) -> int:
        self._source(self.spark.read).write.parquet(str(self.place / name))
        return -1

    def _stream_parquet(self, name: str) -> int:
        options = {
            "path": str(self.place / name),
            "checkpointLocation": str(self.place / f"{name}-checkpoint"),
        }
        stream = self._source(self.spark.readStream).writeStream.format("parquet")
        query = stream.options(**options).trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(one["numInputRows"] for one in query.recentProgress)

    def _write(self, name: str) -> int:
        options = self._sink(name)
        values = self.spark.read.parquet(str(self.place / "values"))
        values.write.format(self.format).options(**options).mode("append").save()
        return self._stored(name)

    def _stream_write(self, name: str) -> int:
        options = self._sink(name)
        values = self.spark.readStream.schema("value BINARY").parquet(str(self.place / "values"))
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


def run(records: int, rounds: int, say: Callable[[str], None]) -> Runs:
    runs = Runs()
    jars = sorted((ROOT / ".cache").glob("spark-connector-*/*.jar"))
    if not jars:
        raise RuntimeError("the connector's jars are not there: make spark-connector")
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as directory:
        place = Path(directory)
        broker = Moldau(place / "broker")
        broker.start()
        spark = spark_session(
            "moldau bench",
            master="local[2]",
            config={
                "spark.jars": ",".join(map(str, jars)),
                "spark.driver.memory": "2g",
                "spark.ui.enabled": "false",
                "spark.log.level": "ERROR",
                "spark.local.dir": directory,
                "spark.ui.showConsoleProgress": "false",
            },
        )
        try:
            _load(spark, broker.address, place, records)
            say(f"{records:,} records loaded")
            for turn in range(rounds):
                for key in WORK:
                    for tuned in (False, True):
                        for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
                            job = Job(spark, broker.address, side.format, records, tuned, place)
                            row = f"{key}_{'tuned' if tuned else 'default'}"
                            seconds = job.run(key)
                            say(f"{row}, {side.name}: {seconds:.2f} s")
                            runs.add(row, side, seconds)
        finally:
            spark.stop()
            broker.stop()
    return runs


def _load(spark: SparkSession, bootstrap: str, place: Path, records: int) -> None:
    """The topic to read, the Parquet file to write from, and a first job so that all is warm."""
    settings = {"bootstrap.servers": bootstrap, "batch.size": 262_144}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("load", PARTITIONS)])
    with Producer(settings) as producer:
        for chunk in range(0, records, CHUNK):
            text = os.urandom(RECORD_BYTES * CHUNK)
            values = [text[at : at + RECORD_BYTES] for at in range(0, len(text), RECORD_BYTES)]
            producer.send_many("load", values, partition=(chunk // CHUNK) % PARTITIONS)
    for side in SIDES:
        frame = Job(spark, bootstrap, side.format, records, False, place)._source(spark.read)
        frame.limit(10).count()
        frame.select("value").write.mode("overwrite").parquet(str(place / "values"))
