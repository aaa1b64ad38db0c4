"""What the benchmark of pipelines has both sides do, and the records that they do it with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

from bench.spark import CHUNK, PARTITIONS, Side
from moldau.client.admin import Admin, NewTopic, OffsetSpec
from moldau.client.producer.producer import Producer
from moldau.model import TopicPartition
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.run import run_pipeline

SCHEMA = "id BIGINT, user STRING, page STRING, amount DOUBLE, seconds BIGINT"
SINK_TOPICS = ("dear", "pages")
DEAR = 900
WINDOW, WATERMARK = 60, 60
FIRST_SECOND = 1_790_000_000
SECONDS = 1800
"""The time that all events of a topic spread over: windows close, whatever their number is."""


class Spent(NamedTuple):
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Job:
    spark: SparkSession
    bootstrap: str
    side: Side
    records: int
    topic: str
    place: Path
    cpu: Callable[[], float]
    """What all processes that take part have used so far."""

    def run(self, key: str) -> Spent:
        """What the work took; its result is checked."""
        name = f"{key}-{self.side.format}-{time.monotonic_ns()}"
        work: Callable[[str], None] = getattr(self, f"_{key}_{self.side.format}")
        if key == "three":
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                admin.create_topics(
                    [NewTopic(f"{name}-{kind}", PARTITIONS) for kind in SINK_TOPICS]
                )
        started, used = time.monotonic(), self.cpu()
        work(name)
        spent = Spent(time.monotonic() - started, self.cpu() - used)
        found = self.spark.read.parquet(str(self.place / name)).count()
        if found != self.records:
            raise RuntimeError(f"{name}: {found} rows instead of {self.records}")
        if key == "three":
            self._check_topics(name)
        return spent

    def _check_topics(self, name: str) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            for kind, expected in zip(SINK_TOPICS, expected_records(self.records), strict=True):
                topic = f"{name}-{kind}"
                partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
                ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
                found = sum(end.offset for end in ends.values())
                if found != expected:
                    raise RuntimeError(f"{topic}: {found} records instead of {expected}")
                admin.delete_topics([topic])

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
size = "{WINDOW}s"
watermark = "{WATERMARK}s"
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
            .withWatermark("time", f"{WATERMARK} seconds")
            .groupBy(F.window("time", f"{WINDOW} seconds"), "page")
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


def load(bootstrap: str, topic: str, records: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "batch.size": 262_144}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    with Producer(settings) as producer:
        for chunk in range(0, records, CHUNK):
            numbers = range(chunk, min(chunk + CHUNK, records))
            values = [_event(number, records) for number in numbers]
            producer.send_many(topic, values, partition=(chunk // CHUNK) % PARTITIONS)


@cache
def expected_records(records: int) -> tuple[int, int]:
    """How many each topic of the three sinks gets: of windows, those that the watermark passed."""
    last = _second(records - 1, records)
    closed = {
        (window, _page(number))
        for number in range(records)
        if (window := _second(number, records) // WINDOW) * WINDOW + WINDOW <= last - WATERMARK
    }
    return sum(_amount(number) >= DEAR for number in range(records)), len(closed)


def _event(number: int, records: int) -> bytes:
    return b'{"id":%d,"user":"user-%d","page":"/page/%d","amount":%d.25,"seconds":%d}' % (
        number,
        number * 7919 % 10_007,
        _page(number),
        _amount(number),
        _second(number, records),
    )


def _page(number: int) -> int:
    return number * 31 % 97


def _amount(number: int) -> int:
    return number * 613 % 1000


def _second(number: int, records: int) -> int:
    return FIRST_SECOND + number * SECONDS // records
