"""Pipelines: one with three sinks beside three plain Structured Streaming queries, and one sink.

Both sides read JSON from one topic of one Moldau broker, in one Spark session, to its end. The
plain queries use the official connector and are written as its guide says. With three sinks, all
rows go to Parquet, some to a topic, and counts by a window to another topic; the plain queries run
at the same time, each with its checkpoint.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from bench.figures import Runs
from bench.processes import family_cpu_seconds
from bench.report import Goal, Row, Table, compare
from bench.session import Session
from bench.spark import CHUNK, CONNECTOR, OURS, PARTITIONS, THEIRS, Side, jars, new_spark
from bench.targets import Moldau, brokers
from bench.warming import warm
from moldau.client.admin import Admin, NewTopic, OffsetSpec
from moldau.client.producer.producer import Producer
from moldau.model import TopicPartition
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.run import run_pipeline


class Scale(NamedTuple):
    records: int
    warming_records: int
    rounds: int
    warming_s: float


FULL = Scale(1_000_000, 100_000, 5, 180)
QUICK = Scale(5000, 1000, 1, 0)

LOAD, WARMING_LOAD = "load", "warming-load"
SCHEMA = "id BIGINT, user STRING, page STRING, amount DOUBLE, seconds BIGINT"
DEAR = 900
FIRST_SECOND = 1_790_000_000
RECORDS_PER_SECOND = 1000

WORK = {
    "three": ("three sinks", Goal(at_most_ratio=1 / 1.5)),
    "from_json": ("one Parquet sink, from_json", Goal(at_most_ratio=1)),
    "value_format": ("one Parquet sink, value_format beside from_json", Goal(at_most_ratio=1)),
}


def rows(scale: Scale) -> list[Row]:
    return [
        row
        for key, (title, goal) in WORK.items()
        for row in (
            Row(f"{key}_cold", f"{scale.warming_records:,} records, {title}, cold", "s", 2),
            Row(key, f"{scale.records:,} records, {title}", "s", 2, goal),
            Row(f"{key}_cpu", "the same: CPU of Spark and its workers", "s", 2),
        )
    ]


@dataclass(frozen=True)
class Job:
    spark: SparkSession
    bootstrap: str
    side: Side
    records: int
    topic: str
    place: Path

    def run(self, key: str) -> float:
        """Seconds that the work took; its result is checked."""
        name = f"{key}-{self.side.format}-{time.monotonic_ns()}"
        work: Callable[[str], None] = getattr(self, f"_{key}_{self.side.format}")
        if key == "three":
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                admin.create_topics(
                    [NewTopic(f"{name}-{kind}", PARTITIONS) for kind in ("dear", "pages")]
                )
        started = time.monotonic()
        work(name)
        seconds = time.monotonic() - started
        found = self.spark.read.parquet(str(self.place / name)).count()
        if found != self.records:
            raise RuntimeError(f"{name}: {found} rows instead of {self.records}")
        if key == "three":
            self._check_topics(name)
        return seconds

    def _check_topics(self, name: str) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            for topic in (f"{name}-dear", f"{name}-pages"):
                partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
                ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
                if not any(end.offset for end in ends.values()):
                    raise RuntimeError(f"{topic} is empty")
            admin.delete_topics([f"{name}-dear", f"{name}-pages"])

    # Moldau's pipelines

    def _three_moldau(self, name: str) -> None:
        self._pipeline(
            name,
            SOURCE_WITH_FORMAT,
            ROWS_OF_FORMAT,
            ALL_ROWS,
            f"""
[[steps]]
name = "dear"
sql = "SELECT * FROM rows WHERE amount > {DEAR}"

[[steps]]
name = "pages"
[steps.window]
from = "rows"
time = "time"
size = "1m"
watermark = "1m"
group_by = ["page"]
aggregate = {{ visits = "count(*)", spent = "sum(amount)" }}

[[sinks]]
from = "dear"
topic = "{name}-dear"
bootstrap_servers = "{self.bootstrap}"
key = "user"
value = "to_json(struct(*))"

[[sinks]]
from = "pages"
topic = "{name}-pages"
bootstrap_servers = "{self.bootstrap}"
key = "page"
value = "to_json(struct(*))"
""",
        )

    def _from_json_moldau(self, name: str) -> None:
        self._pipeline(name, SOURCE, ROWS_BY_FROM_JSON, ALL_ROWS)

    def _value_format_moldau(self, name: str) -> None:
        self._pipeline(name, SOURCE_WITH_FORMAT, ROWS_OF_FORMAT, ALL_ROWS)

    def _pipeline(self, name: str, *parts: str) -> None:
        values = {
            "name": name,
            "topic": self.topic,
            "bootstrap": self.bootstrap,
            "place": str(self.place),
        }
        text = "\n".join((HEAD, *parts))
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        run_pipeline(parse_pipeline(text, f"{name}.toml"), self.spark)

    # Structured Streaming on the official connector

    def _three_kafka(self, name: str) -> None:
        visits = (
            self._rows()
            .withWatermark("time", "1 minute")
            .groupBy(F.window("time", "1 minute"), "page")
            .agg(F.count("*").alias("visits"), F.sum("amount").alias("spent"))
            .select("window.start", "window.end", "page", "visits", "spent")
        )
        queries = [
            self._to_parquet(self._rows(), name),
            self._to_topic(self._rows().where(F.col("amount") > DEAR), "user", f"{name}-dear"),
            self._to_topic(visits, "page", f"{name}-pages"),
        ]
        for query in queries:
            query.awaitTermination()

    def _from_json_kafka(self, name: str) -> None:
        self._to_parquet(self._rows(), name).awaitTermination()

    _value_format_kafka = _from_json_kafka

    def _rows(self) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
        }
        records = self.spark.readStream.format("kafka").options(**options).load()
        values = F.from_json(F.col("value").cast("string"), SCHEMA)
        return (
            records.select(values.alias("value"))
            .select("value.*")
            .select("*", F.timestamp_seconds("seconds").alias("time"))
        )

    def _to_parquet(self, frame: DataFrame, name: str) -> Any:
        return self._started(frame.writeStream.format("parquet"), name, path=self.place / name)

    def _to_topic(self, frame: DataFrame, key: str, name: str) -> Any:
        records = frame.select(F.col(key).alias("key"), F.to_json(F.struct("*")).alias("value"))
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": name}
        return self._started(records.writeStream.format("kafka"), name, **options)

    def _started(self, writer: Any, name: str, **options: object) -> Any:
        place = self.place / f"{name}-checkpoint"
        writer = writer.options(**options, checkpointLocation=place)
        return writer.trigger(availableNow=True).start()


HEAD = """
name = "@name@"
[spark]
checkpoint = "@place@/@name@-checkpoint"
[trigger]
available_now = true
"""
SOURCE = """
[[sources]]
name = "events"
topic = "@topic@"
bootstrap_servers = "@bootstrap@"
starting_offsets = "earliest"
"""
SOURCE_WITH_FORMAT = f"""{SOURCE}
value_format = "json"
value_schema = "{SCHEMA}"
"""
ROWS_OF_FORMAT = """
[[steps]]
name = "rows"
sql = "SELECT value.*, timestamp_seconds(value.seconds) AS time FROM events"
"""
ROWS_BY_FROM_JSON = f"""
[[steps]]
name = "parsed"
sql = "SELECT from_json(CAST(value AS STRING), '{SCHEMA}') AS value FROM events"

[[steps]]
name = "rows"
sql = "SELECT value.*, timestamp_seconds(value.seconds) AS time FROM parsed"
"""
ALL_ROWS = """
[[sinks]]
name = "all"
from = "rows"
parquet = "@place@/@name@"
"""


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
                _load(broker.address, topic, records)
            notes = _warm(spark, broker.address, place, scale, sides, runs)
            session.say(notes[-1])
            for turn, key in itertools.product(range(scale.rounds), WORK):
                for side in sides if turn % 2 == 0 else sides[::-1]:
                    job = Job(spark, broker.address, side, scale.records, LOAD, place)
                    before = family_cpu_seconds(jvm)
                    seconds = job.run(key)
                    session.say(f"{key}, {side.name}: {seconds:.2f} s")
                    runs.add(key, side, seconds)
                    runs.add(f"{key}_cpu", side, family_cpu_seconds(jvm) - before)
        finally:
            spark.stop()
    title = f"Pipelines, local[2], one Moldau broker, medians of {scale.rounds} rounds"
    return [compare(title, rows(scale), runs, notes, theirs=CONNECTOR)]


def _warm(
    spark: SparkSession, bootstrap: str, place: Path, scale: Scale, sides: list[Side], runs: Runs
) -> list[str]:
    """Runs every job on the small topic until its time is steady; the first one is cold."""

    def seconds_of(key: str, side: Side) -> Callable[[], float]:
        job = Job(spark, bootstrap, side, scale.warming_records, WARMING_LOAD, place)
        runs.add(f"{key}_cold", side, job.run(key))
        return lambda: job.run(key)

    work = {
        f"{title}, {side.name}": seconds_of(key, side)
        for key, (title, _) in WORK.items()
        for side in sides
    }
    return [warm(work, scale.warming_s).text("Spark")]


def _load(bootstrap: str, topic: str, records: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "batch.size": 262_144}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    with Producer(settings) as producer:
        for chunk in range(0, records, CHUNK):
            values = [_event(number) for number in range(chunk, min(chunk + CHUNK, records))]
            producer.send_many(topic, values, partition=(chunk // CHUNK) % PARTITIONS)


def _event(number: int) -> bytes:
    return (
        b'{"id":%d,"user":"user-%d","page":"/page/%d","amount":%d.25,"seconds":%d}'
        % (
            number,
            number * 7919 % 10_007,
            number * 31 % 97,
            number * 613 % 1000,
            FIRST_SECOND + number // RECORDS_PER_SECOND,
        )
    )
