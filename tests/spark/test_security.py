"""Jobs on a secured cluster: options go to readers and writers on executors, and stay secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.records import committed_rows
from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import make_certificates
from tests.support.secured_kafka import PASSWORD, SASL_SSL, USER, add_user, secured_kafka

from moldau import Admin, NewTopic, Producer
from moldau.client.admin import raise_first_error
from moldau.spark.options import read_options, write_options

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
QUOTED = PASSWORD.replace('"', r"\"")


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[ApacheKafka]:
    certificates = make_certificates(tmp_path / "certificates")
    broker = secured_kafka(tmp_path / "kafka", certificates, {})
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def options_of(secured: ApacheKafka, directory: Path) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": secured.address(SASL_SSL),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": str(directory / "certificates" / "authority.pem"),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{MODULE} required username="{USER}" password="{QUOTED}";',
    }


def test_a_query_over_tls_with_a_login(
    secured: ApacheKafka, spark: SparkSession, tmp_path: Path
) -> None:
    options = options_of(secured, tmp_path)
    add_user(secured, USER, "SCRAM-SHA-512")
    with Admin(bootstrap_servers=secured.bootstrap) as admin:
        raise_first_error(admin.create_topics([NewTopic("numbers", 2), NewTopic("copies", 2)]))
    with Producer(bootstrap_servers=secured.bootstrap) as producer:
        producer.send_many("numbers", [b"%d" % number for number in range(100)])
    source = spark.readStream.format("moldau").options(
        **options, subscribe="numbers", startingOffsets="earliest"
    )
    query = (
        source.load()
        .select("key", "value")
        .writeStream.format("moldau")
        .options(**options, topic="copies", exactlyOnce="true")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    shown = [progress.json for progress in query.recentProgress]
    found = committed_rows(secured.bootstrap, "copies", 2, 100)
    assert sorted(int(row.value or b"-1") for row in found) == list(range(100))
    frame = spark.read.format("moldau").options(**options, subscribe="copies").load()
    shown.append(frame._jdf.queryExecution().toString())
    assert len(shown) > 1
    assert not [text for text in shown if "secret" in text]


def test_options_are_not_shown() -> None:
    given = {
        "kafka.bootstrap.servers": "localhost",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "hush-hush",
    }
    read = read_options({**given, "subscribe": "t"}, streaming=False)
    write = write_options({**given, "topic": "t"})
    assert read.settings.sasl_password == write.settings.sasl_password == "hush-hush"
    for shown in (read, write, read.settings, write.settings):
        assert "hush-hush" not in repr(shown)
