"""A topic as a streaming table, a materialized view of it, and a topic as the sink."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
bootstrap = spark.conf.get("moldau.bootstrap")
topic = spark.conf.get("moldau.topic")
to = spark.conf.get("moldau.to")


@dp.table
def visits() -> DataFrame:
    """What the topic has, and what comes."""
    return (
        spark.readStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(key AS STRING) AS page", "CAST(value AS STRING) AS visitor", "timestamp")
    )


@dp.materialized_view
def pages() -> DataFrame:
    return spark.read.table("visits").groupBy("page").count()


dp.create_sink("copies", "moldau", {"kafka.bootstrap.servers": bootstrap, "topic": to})


@dp.append_flow(target="copies")
def copied_visits() -> DataFrame:
    return spark.readStream.table("visits").selectExpr("page AS key", "visitor AS value")
