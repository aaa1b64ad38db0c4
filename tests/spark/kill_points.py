"""Moments in a batch of the clickstream example, as one sees them from outside; whom to kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.spark.clickstream import PARTITIONS, Stores
from tests.spark.processes import command_of, of_session

from moldau.spark.exactly_once.options import DEFAULT_TOPIC

Victim = Literal["workers", "JVM", "driver", "all of Python"]
VICTIMS: tuple[Victim, ...] = ("workers", "JVM", "driver", "all of Python")
Sign = Callable[[], set[Any]]
"""Something in it that was not there before: it is so far."""


def pids(session: int, victim: Victim) -> list[int]:
    """Of a driver and what it has started.

    Spark forks other workers for those that are gone. Where they are forked from, and who asks the
    source for its offsets, is not replaced: the query ends, and the pipeline starts Spark anew.
    """
    if victim == "driver":
        return [session]
    found = of_session(session)
    java = [one.pid for one in found if one.name == "java"]
    if victim == "JVM":
        return java
    helpers = [one.pid for one in found if one.parent in java and "pyspark" in command_of(one.pid)]
    workers = [one.pid for one in found if one.parent in helpers]
    return workers if victim == "workers" else [*helpers, *workers]


class Points:
    """In the order of a batch: its plan, each sink before and after, its end."""

    def __init__(self, stores: Stores, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._engine = sa.create_engine(stores.database, isolation_level="AUTOCOMMIT")
        self._consumers: dict[str, Consumer] = {}
        folder = stores.folder
        table = folder / "warehouse" / "shop" / "clicks"
        self.signs: Mapping[str, Sign] = {
            "batch planned": lambda: set(checkpoint.glob("*/offsets/[0-9]*")),
            "letter written": lambda: self._end(stores.source, stores.bad, 1),
            "state kept": lambda: set(checkpoint.glob("*/state/*/*/*.delta")),
            "rows on their way to PostgreSQL": self._staging,
            "rows in PostgreSQL": self._batches,
            "records in the topic": lambda: self._end(stores.target, stores.to, PARTITIONS),
            "transaction decided": lambda: self._end(stores.target, DEFAULT_TOPIC, 1),
            "files beside the folder": lambda: set(folder.glob(".clicks.staging/*/*/*/*.parquet")),
            "files in the folder": lambda: set(folder.glob("clicks/*/*.parquet")),
            "files of Delta": lambda: set(folder.glob("sessions/*.parquet")),
            "Delta's log": lambda: set(folder.glob("sessions/_delta_log/*.json")),
            "files of Iceberg": lambda: set(table.glob("data/*/*.parquet")),
            "Iceberg's snapshot": lambda: set(table.glob("metadata/v*.json")),
            "batch done": lambda: set(checkpoint.glob("*/commits/[0-9]*")),
        }

    def planned(self) -> int:
        """The last batch, or -1."""
        return max(self._numbers("offsets"), default=-1)

    def watermark(self, *, done: bool = False) -> int:
        """Of the last batch that was planned, or that is done."""
        numbers = set(self._numbers("offsets"))
        if done:
            numbers &= set(self._numbers("commits"))
        if not numbers:
            return 0
        [file] = self._checkpoint.glob(f"*/offsets/{max(numbers)}")
        lines = file.read_text().splitlines()
        return int(json.loads(lines[1])["batchWatermarkMs"]) if len(lines) > 1 else 0

    def close(self) -> None:
        self._engine.dispose()
        for one in self._consumers.values():
            one.close()

    def _numbers(self, kind: str) -> Iterator[int]:
        return (int(one.name) for one in self._checkpoint.glob(f"*/{kind}/[0-9]*"))

    def _end(self, bootstrap: str, topic: str, partitions: int) -> set[Any]:
        if bootstrap not in self._consumers:
            settings = {"bootstrap.servers": bootstrap, "group.id": "ends"}
            self._consumers[bootstrap] = Consumer(settings)
        consumer = self._consumers[bootstrap]
        try:
            return {
                (number, consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60))
                for number in range(partitions)
            }
        except KafkaException:
            return set()  # the topic is not there yet

    def _staging(self) -> set[Any]:
        return self._rows("SELECT relname FROM pg_class WHERE relname LIKE 'moldau_staging_%'")

    def _batches(self) -> set[Any]:
        return self._rows("SELECT query, batch FROM moldau_batches")

    def _rows(self, query: str) -> set[Any]:
        try:
            with self._engine.connect() as connection:
                return {tuple(row) for row in connection.execute(sa.text(query))}
        except sa.exc.ProgrammingError:
            return set()  # the table is not there yet
