"""Everything of the data source once, in a session of its own: for another release of PySpark.

Prints what it found as JSON; the test knows what is right.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.java_options import JAVA_OPTIONS

from moldau.client.admin import Admin
from moldau.spark.group_offsets import GroupOffsetListener
from moldau.spark.session import spark_session

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}


class Steps:
    def __init__(self, spark: SparkSession, bootstrap: str, place: str) -> None:
        self._spark = spark
        self._server = {"kafka.bootstrap.servers": bootstrap}
        self._place = place

    def write(self, topic: str) -> int:
        """100 rows to two partitions, half of them with a header."""
        rows = self._spark.range(100).selectExpr(
            "string(id) AS key",
            "concat('{\"id\": ', id, '}') AS value",
            "int(id % 2) AS partition",
            "if(id % 2 = 0, array(struct('h' AS key, binary('x') AS value)), null) AS headers",
        )
        rows.write.format("moldau").options(**self._server, topic=topic).mode("append").save()
        return rows.count()

    def read(self, topic: str) -> dict[str, Any]:
        rows = self._read(topic, includeHeaders="true")
        narrow = rows.where("partition = 1 AND offset >= 40")
        return {
            "columns": [f"{name} {kind}" for name, kind in rows.dtypes],
            "headers": rows.where("headers[0].key = 'h'").count(),
            "filtered": narrow.count(),
            "tasks": narrow.rdd.getNumPartitions(),
            "few": self._read(topic, schema="offset BIGINT").columns,
        }

    def decode(self, topic: str) -> int:
        rows = self._read(topic, **{"value.format": "json", "value.schema": "id BIGINT"})
        return sum(row.id for row in rows.select("value.id").collect())

    def stream(self, topic: str, copy: str, **options: str) -> list[int]:
        """How many rows each batch had; ended by hand when all have been read."""
        query = self._copy(topic, copy, "stream", **options).start()
        while sum(_rows(query)) < 100 and query.isActive:
            query.awaitTermination(0.1)
        query.stop()
        if (failure := query.exception()) is not None:
            raise failure
        return _rows(query)

    def available_now(self, topic: str, copy: str, group: str, **options: str) -> list[int]:
        listener = GroupOffsetListener(
            group, self._server["kafka.bootstrap.servers"], query="available now"
        )
        self._spark.streams.addListener(listener)
        writer = self._copy(topic, copy, "now", **options).queryName("available now")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        listener.wait()
        self._spark.streams.removeListener(listener)
        listener.close()
        return _rows(query)

    def committed(self, group: str) -> int:
        with Admin(self._server_settings) as admin:
            offsets = admin.list_group_offsets(group)
        return sum(one.offset for one in offsets.values())

    @property
    def _server_settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self._server["kafka.bootstrap.servers"]}

    def _read(self, topic: str, schema: str | None = None, **options: str) -> DataFrame:
        reader = self._spark.read.format("moldau")
        reader = reader if schema is None else reader.schema(schema)
        return reader.options(**self._server, subscribe=topic, **options).load()

    def _copy(self, topic: str, copy: str, name: str, **options: str) -> Any:
        reading = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
        rows = self._spark.readStream.format("moldau").options(**self._server, **reading).load()
        writer = rows.select("key", "value").writeStream.format("moldau")
        place = f"{self._place}/{name}"
        return writer.options(**self._server, topic=copy, checkpointLocation=place, **options)


def _rows(query: StreamingQuery) -> list[int]:
    return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]


def main(bootstrap: str, place: str, topic: str, copy: str, exact: str) -> None:
    spark = spark_session("release", master="local[2]", config=CONFIG)
    steps = Steps(spark, bootstrap, place)
    found = {
        "version": pyspark.__version__,
        "written": steps.write(topic),
        "read": steps.read(topic),
        "sum": steps.decode(topic),
        "stream": steps.stream(topic, copy),
        "now": steps.available_now(topic, exact, f"{topic}-group", exactlyOnce="true"),
        "committed": steps.committed(f"{topic}-group"),
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
