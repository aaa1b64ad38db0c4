"""Tables of Delta Lake or Apache Iceberg, in a session of its own: for a PySpark that they know.

Prints what it found as JSON; the test knows what is right.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.spark.java_options import JAVA_OPTIONS

from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.run import once, run_pipeline
from moldau.spark.pipeline.sinks import Batch, lake, write_batch
from moldau.spark.pipeline.sinks.batch import SinkError
from moldau.spark.pipeline.sinks.lake import located, sql_name
from moldau.spark.pipeline.spec import LakeFormat, LakeSink
from moldau.spark.pipeline.table_formats import session_config
from moldau.spark.session import spark_session

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}
PIPELINE = """
    name = "lake"
    [spark]
    checkpoint = "PLACE/checkpoint"
    [[sources]]
    name = "events"
    delta = "PLACE/events"
    [[sources]]
    name = "places"
    iceberg = "lake.geo.places"
    warehouse = "PLACE/warehouse"
    streaming = false
    [[steps]]
    name = "placed"
    sql = "SELECT id, amount, place FROM events JOIN places USING (id)"
    [[sinks]]
    name = "delta"
    from = "placed"
    delta = "PLACE/placed"
    keys = ["id"]
    [[sinks]]
    name = "iceberg"
    from = "placed"
    iceberg = "lake.geo.placed"
    warehouse = "PLACE/warehouse"
    compact = true
    [[sinks]]
    name = "log"
    from = "placed"
    delta = "PLACE/log"
"""


class Steps:
    def __init__(self, spark: SparkSession, place: str, kind: LakeFormat) -> None:
        self._spark = spark
        self._place = place
        self._kind: LakeFormat = kind
        self._count = 0

    def sink(self, **options: Any) -> LakeSink:
        """A table of its own."""
        self._count += 1
        name = f"t{self._count}"
        table = f"{self._place}/{name}" if self._kind == "delta" else f"lake.test.{name}"
        return LakeSink(name, "in", self._kind, table, **options)

    def rows(self, sink: LakeSink) -> list[list[Any]]:
        found = self._spark.table(sql_name(located(sink, self._spark))).collect()
        return sorted((list(row) for row in found), key=str)

    def frame(self, *rows: tuple[Any, ...], schema: str = "k STRING, n INT") -> DataFrame:
        return self._spark.createDataFrame(list(rows), schema).coalesce(1)

    def append(self) -> Any:
        """Each batch comes twice, the second time with other rows: they must not be seen."""
        sink = self.sink()
        for number in range(3):
            for attempt in ("first", "second"):
                write_batch(sink, self.frame((attempt, number)), Batch("query", number))
        write_batch(sink, self.frame(("another", 0)), Batch("another query", 0))
        counted = write_batch(sink, self.frame(("none", 0)), None)
        return self.rows(sink), counted

    def upsert(self) -> Any:
        sink = self.sink(keys=("k",))
        write_batch(sink, self.frame(("a", 1), (None, 2), ("a", 3)), Batch("query", 0))
        write_batch(sink, self.frame(("a", 7), (None, 7)), Batch("query", 0))
        write_batch(sink, self.frame(("b", 4), (None, 5)), Batch("query", 1))
        return self.rows(sink)

    def complete(self) -> Any:
        sink = self.sink(output_mode="complete")
        write_batch(sink, self.frame(("a", 1), ("b", 2)), Batch("query", 0))
        write_batch(sink, self.frame(("a", 3)), Batch("query", 1))
        write_batch(sink, self.frame(("a", 9)), Batch("query", 1))
        return self.rows(sink)

    def evolve(self, **options: Any) -> Any:
        """A column more, and one less."""
        sink = self.sink(**options)
        write_batch(sink, self.frame(("a", 1)), Batch("query", 0))
        more = self.frame(("a", 2, 2.5), schema="k STRING, n INT, x DOUBLE")
        try:
            write_batch(sink, more, Batch("query", 1))
        except SinkError as error:
            return str(error).partition(sink.name)[2], self.rows(sink)
        write_batch(sink, self.frame(("a", 3.5), schema="k STRING, x DOUBLE"), Batch("query", 2))
        return self.rows(sink)

    def partitions(self) -> Any:
        transforms = ("n",) if self._kind == "delta" else ("n", "bucket(4, k)")
        sink = self.sink(partition_by=transforms)
        write_batch(sink, self.frame(("a", 1), ("b", 2), ("c", 2)), Batch("query", 0))
        files = self._files(sink)
        write_batch(sink, self.frame(("d", 2)), Batch("query", 1))
        return self.rows(sink), sorted({"n=1" in one or "n=2" in one for one in files})

    def compact(self) -> Any:
        lake.COMPACT_EVERY = 6  # type: ignore[misc]
        sink = self.sink(compact=True)
        for number in range(5):
            write_batch(sink, self.frame(("a", number)), Batch("query", number))
        before = len(set(self._files(sink)))
        write_batch(sink, self.frame(("a", 5)), Batch("query", 5))
        write_batch(sink, self.frame(("b", 5)), Batch("query", 5))
        return before, len(set(self._files(sink))), len(self.rows(sink))

    def _files(self, sink: LakeSink) -> list[str]:
        found = self._spark.table(sql_name(located(sink, self._spark)))
        return [row[0] for row in found.selectExpr("input_file_name()").collect()]


def pipeline(spark: SparkSession, place: str) -> Any:
    """Sources of both kinds; the last batch of each sink runs again, as after a crash."""
    declared = once(parse_pipeline(dedent(PIPELINE).replace("PLACE", place), "lake.toml"))

    def found() -> list[list[Any]]:
        kinds = (
            ("delta", f"{place}/placed"),
            ("iceberg", "lake.geo.placed"),
            ("delta", f"{place}/log"),
        )
        return [
            sorted(list(row) for row in spark.read.format(kind).load(table).collect())
            for kind, table in kinds
        ]

    rows = spark.createDataFrame([(1, "Praha"), (2, "Wien")], "id INT, place STRING")
    spark.sql("CREATE NAMESPACE lake.geo")
    rows.writeTo("lake.geo.places").create()
    seen = []
    for amounts in ([(1, 10), (2, 20)], [(1, 11)]):
        events = spark.createDataFrame(amounts, "id INT, amount INT")
        events.write.format("delta").mode("append").save(f"{place}/events")
        run_pipeline(declared, spark)
        seen.append(found())
    for commits in Path(place, "checkpoint").glob("*/commits"):
        last = max(int(one.name) for one in commits.iterdir() if one.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
    run_pipeline(declared, spark)
    return [*seen, found()]


def main(place: str, jars: str) -> None:
    declared = parse_pipeline(
        dedent(PIPELINE).replace("PLACE", place) + f'\n[spark.config]\n"spark.jars" = "{jars}"\n',
        "lake.toml",
    )
    config = session_config(declared)
    assert "spark.jars.packages" not in config
    spark = spark_session("lake", master="local[2]", config={**CONFIG, **config})
    found: dict[str, Any] = {}
    kinds: tuple[LakeFormat, ...] = ("delta", "iceberg")
    for kind in kinds:
        steps = Steps(spark, place, kind)
        calls: dict[str, Callable[[], Any]] = {
            "append": steps.append,
            "upsert": steps.upsert,
            "complete": steps.complete,
            "refused": steps.evolve,
            "evolved": partial(steps.evolve, schema_evolution=True),
            "merged": partial(steps.evolve, schema_evolution=True, keys=("k",)),
            "partitions": steps.partitions,
            "compact": steps.compact,
        }
        found[kind] = {name: call() for name, call in calls.items()}
    found["pipeline"] = pipeline(spark, place)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
