"""Archives the classes of Spark, so that its JVMs start in half the time. ``make test`` runs it.

The tests start some thirty of them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.spark.java_options import ARCHIVE, QUICK

from moldau.spark.session import spark_session


def main() -> None:
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as place:
        made = Path(place) / "classes.jsa"
        config = {
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": place,
            "spark.driver.extraJavaOptions": (
                f"{QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
            ),
        }
        spark = spark_session("classes", master="local[2]", config=config)
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        process = gateway.proc
        use_classes(spark, place)
        spark.stop()
        process.stdin.close()  # at which it ends, and writes the archive
        process.wait(600)
        made.replace(ARCHIVE)


def use_classes(spark: SparkSession, place: str) -> None:
    """A little of what tests do."""
    twice = F.udf(lambda number: 2 * number, "bigint")
    rows = spark.range(9).select(twice("id").alias("n")).groupBy("n").count()
    rows.write.parquet(f"{place}/rows")
    stream = spark.readStream.schema(rows.schema).parquet(f"{place}/rows")
    writer = stream.writeStream.format("noop").option("checkpointLocation", f"{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
