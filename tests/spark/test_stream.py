"""Streaming queries: batches within limits, restarts that go on where they were, lag in sight."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from tests.client.conftest import NewTopicFactory, is_led, topic_factory
from tests.spark.records import consume, produce
from tests.spark.standalone import PYTHONPATH, ROOT
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.spark.admission import AdmittingStreamReader
from moldau.spark.group_offsets import GroupOffsetListener
from moldau.spark.offsets import DataLossError
from moldau.spark.options import read_options
from moldau.spark.stream_reader import PlainStreamReader

PROGRAM = "tests.spark.copy_program"


def numbers(first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    return [{"value": b"%d" % number, **more} for number in range(first, last)]


def committed(target: Target, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    offsets = [one.offset for one in consumer.committed(wanted, timeout=60)]
    consumer.close()
    return offsets


def test_a_query_goes_on_where_its_checkpoint_ends(
    cluster: Target, new_topic: NewTopicFactory, spark: SparkSession, tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    group = f"group-{topic}"
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "150",
        "kafka.group.id": group,
    }
    place, checkpoint = str(tmp_path / "rows"), str(tmp_path / "checkpoint")
    listener = GroupOffsetListener(f"{group}-exact", cluster.bootstrap, query=f"query {topic}")
    spark.streams.addListener(listener)

    def run() -> list[Any]:
        rows = spark.readStream.format("moldau").options(**options).load()
        query = (
            rows.selectExpr("int(string(value)) as number")
            .writeStream.format("parquet")
            .queryName(f"query {topic}")
            .option("path", place)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    produce(cluster.bootstrap, topic, numbers(0, 400))
    batches = run()
    assert len(batches) >= 3
    assert all(0 < one["numInputRows"] <= 150 for one in batches)
    assert json.loads(batches[-1]["sources"][0]["latestOffset"]) == json.loads(
        batches[-1]["sources"][0]["endOffset"]
    )
    produce(cluster.bootstrap, topic, numbers(400, 500))
    run()
    found = sorted(row.number for row in spark.read.parquet(place).collect())
    assert found == list(range(500))
    ends = committed(cluster, group, topic, 2)
    assert 0 < sum(ends) < 500  # Spark never says that the last batch is done
    assert listener.wait()
    spark.streams.removeListener(listener)
    listener.close()
    assert sum(committed(cluster, f"{group}-exact", topic, 2)) == 500


def test_rows_are_copied_to_another_topic(
    cluster: Target, new_topic: NewTopicFactory, spark: SparkSession, checkpoint: str
) -> None:
    topic, copy = new_topic(partitions=2), new_topic(partitions=2)
    produce(cluster.bootstrap, topic, numbers(0, 300, key=b"k"))
    server = {"kafka.bootstrap.servers": cluster.bootstrap}
    rows = spark.readStream.format("moldau").options(**server, subscribe=topic)
    query = (
        rows.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("moldau")
        .options(**server, topic=copy, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    before = sorted((row.key, row.value) for row in consume(cluster.bootstrap, topic, 2))
    after = sorted((row.key, row.value) for row in consume(cluster.bootstrap, copy, 2))
    assert after == before


def test_a_killed_query_loses_nothing(clusters: Callable[[str], Target], tmp_path: Path) -> None:
    """In the midst of a batch, unless it is quicker than the kill."""
    cluster = clusters("moldau")
    new_topic = topic_factory(cluster.bootstrap)
    topic, copy = new_topic(partitions=2), new_topic(partitions=2)
    produce(cluster.bootstrap, topic, numbers(0, 300))
    command = [sys.executable, "-m", PROGRAM, cluster.bootstrap, topic, copy, str(tmp_path / "to")]
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path), "PYTHONPATH": PYTHONPATH}
    log = tmp_path / "first.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=output,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        ) as program,
    ):
        assert program.stdout is not None
        for line in program.stdout:
            if int(line.removeprefix(b"copied ")) >= 300:
                break
        else:
            pytest.fail(f"the query ended early: {log.read_text()[-2000:]}")
        produce(cluster.bootstrap, topic, numbers(300, 600))
        os.killpg(program.pid, signal.SIGKILL)
    already = {row.value for row in consume(cluster.bootstrap, copy, 2)}
    assert 300 <= len(already) <= 600
    produce(cluster.bootstrap, topic, numbers(600, 700))
    done = subprocess.run(
        [*command, "to the end"],
        check=False,
        env=environment,
        cwd=ROOT,
        timeout=500,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    found = [row.value for row in consume(cluster.bootstrap, copy, 2)]
    assert {int(value) for value in found if value is not None} == set(range(700))
    assert len(found) <= 700 + 150  # the batch that was under way


def reader(target: Target, topic: str, **options: str) -> AdmittingStreamReader:
    given = {"kafka.bootstrap.servers": target.bootstrap, "subscribe": topic, **options}
    return AdmittingStreamReader(read_options(given, streaming=True), StructType())


def test_batches_wait_for_enough_records_and_new_partitions_are_read_from_their_start(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    waiting = reader(cluster, topic, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    limit = waiting.getDefaultReadLimit()
    begin = waiting.initialOffset()
    assert begin == {topic: {"0": 0}}
    produce(cluster.bootstrap, topic, numbers(0, 9))
    assert waiting.latestOffset(begin, limit) == begin
    assert waiting.reportLatestOffset() == {topic: {"0": 9}}
    produce(cluster.bootstrap, topic, numbers(9, 10))
    assert waiting.latestOffset(begin, limit) == {topic: {"0": 10}}
    hurried = reader(cluster, topic, minOffsetsPerTrigger="99", maxTriggerDelay="1ms")
    hurried.initialOffset()
    assert hurried.latestOffset(begin, hurried.getDefaultReadLimit()) == {topic: {"0": 10}}
    hurried.stop()

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    eventually(lambda: is_led(admin.list_topics(topic, timeout=60).topics[topic], 2))
    produce(cluster.bootstrap, topic, numbers(0, 20, partition=1))
    end = waiting.latestOffset({topic: {"0": 10}}, limit)
    assert end == {topic: {"0": 10, "1": 20}}
    ranges = [one.value for one in waiting.partitions({topic: {"0": 10}}, end)]
    assert [(one.partition, one.start, one.end) for one in ranges] == [(1, 0, 20)]

    waiting.prepareForTriggerAvailableNow()
    produce(cluster.bootstrap, topic, numbers(0, 5, partition=1))
    assert waiting.latestOffset(end, limit) == end
    waiting.stop()


def test_older_releases_of_spark_have_limits_too(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    produce(cluster.bootstrap, topic, numbers(0, 25))
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
    }
    older = PlainStreamReader(read_options(given, streaming=True), StructType())
    begin, ends = older.initialOffset(), []
    for _ in range(4):
        end = older.latestOffset()
        ends.append(end[topic]["0"])
        older.partitions(begin, end)
        begin = end
    assert ends == [10, 20, 25, 25]
    older.stop()


def test_a_log_that_became_shorter_stops_the_query(
    cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic = new_topic()
    produce(cluster.bootstrap, topic, numbers(0, 5))
    strict = reader(cluster, topic)
    limit = strict.getDefaultReadLimit()
    with pytest.raises(DataLossError, match="ends at offset 5, 8 was read"):
        strict.latestOffset({topic: {"0": 8}}, limit)
    with pytest.raises(DataLossError, match="not there any more"):
        strict.latestOffset({topic: {"0": 5}, "gone": {"0": 3}}, limit)
    with pytest.raises(DataLossError, match="it belongs to another source") as caught:
        strict.latestOffset({"elsewhere": {"0": 8}}, limit)
    assert "failOnDataLoss" not in str(caught.value)  # which would lose records
    strict.stop()
    lenient = reader(cluster, topic, failOnDataLoss="false")
    assert lenient.latestOffset({topic: {"0": 8}}, limit) == {topic: {"0": 5}}
    assert not lenient.partitions({topic: {"0": 8}}, {topic: {"0": 5}})
    lenient.stop()


def test_a_failing_query_says_why(
    cluster: Target, new_topic: NewTopicFactory, spark: SparkSession, checkpoint: str
) -> None:
    topic = new_topic()
    produce(cluster.bootstrap, topic, numbers(0, 5))
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}
    starting = json.dumps({topic: {"0": 0, "7": 0}})
    rows: DataFrame = (
        spark.readStream.format("moldau").options(**given, startingOffsets=starting).load()
    )
    query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    with pytest.raises(StreamingQueryException, match="must name all partitions"):
        query.awaitTermination(120)
