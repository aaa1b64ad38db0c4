"""One Spark session for all tests, and the clusters of ``tests/client``: Moldau, Apache Kafka."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.client.conftest import (
    NewTopicFactory,
    cluster,
    clusters,
    kafka,
    new_topic,
    topic_factory,
)
from tests.spark.java_options import JAVA_OPTIONS
from tests.support.target import Target

from moldau.spark.session import spark_session

__all__ = ["cluster", "clusters", "kafka", "new_topic", "spark"]

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.task.maxFailures": "1",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that all tests share: it takes five seconds to start."""
    place = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "moldau tests",
        master="local[2]",
        config={**CONFIG, "spark.sql.warehouse.dir": str(place), "spark.local.dir": str(place)},
    )
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def spark_warnings(request: pytest.FixtureRequest) -> Iterator[None]:
    """PySpark leaves sockets to the garbage collector; that is no fault of a test."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ResourceWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="pyspark")
        yield
        if "spark" in request.fixturenames:
            gc.collect()


@pytest.fixture
def kafka_topic(kafka: Target) -> NewTopicFactory:
    """Creates topics in Apache Kafka."""
    return topic_factory(kafka.bootstrap)


@pytest.fixture
def moldau(clusters: Callable[[str], Target]) -> Target:
    return clusters("moldau")


@pytest.fixture
def topics(moldau: Target) -> NewTopicFactory:
    """Creates topics in Moldau; records of tests are old."""
    return partial(topic_factory(moldau.bootstrap), retention_ms=-1)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def batch(spark: SparkSession) -> Any:
    """``batch(cluster, subscribe=topic, ...)`` reads all rows of a batch query."""

    def read(target: Target, **options: Any) -> DataFrame:
        return (
            spark.read.format("moldau")
            .option("kafka.bootstrap.servers", target.bootstrap)
            .options(**options)
            .load()
        )

    return read


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of tests are no runs of whoever tests: they are not noted among those."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
