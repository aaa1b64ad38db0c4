"""Metrics of a broker, read over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.support.in_process import InProcessBroker
from tests.support.kafka_instead import KafkaInstead
from tests.support.wire import WireClient, one_batch, values_of

from moldau.broker.metrics import broker_metrics

METRICS = {"metrics.listener": "HTTP://127.0.0.1:0", "offsets.topic.num.partitions": "1"}
OPERATIONS = Path(__file__).parents[2] / "docs/operations.md"

pytestmark = pytest.mark.parametrize("broker", [METRICS], indirect=True)


async def read(broker: InProcessBroker) -> dict[str, float]:
    url = broker.server.metrics_url
    assert url is not None

    def get() -> str:
        with urlopen(url, timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    lines = (await asyncio.to_thread(get)).splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


async def test_traffic_is_counted(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic("t", 2)
    batch = one_batch(b"a", b"b", b"c")
    for partition in (0, 1):
        assert (await client.produce("t", batch, partition=partition)).error_code == 0
    assert (await client.produce("nowhere", batch)).error_code
    assert (await client.produce("t", batch, acks=7)).error_code
    assert values_of(await client.fetch("t")) == [b"a", b"b", b"c"]

    found = await read(broker)
    topics = "kafka_server_brokertopicmetrics_"
    assert found[f"{topics}messagesin_total"] == 6
    assert found[f"{topics}bytesin_total"] == 2 * len(batch)
    assert found[f"{topics}bytesout_total"] == len(batch)
    assert found[f"{topics}totalproducerequests_total"] == 4
    assert found[f"{topics}totalfetchrequests_total"] == 1
    assert found[f"{topics}failedproducerequests_total"] == 1, "an unknown topic is no failure"
    assert found[f"{topics}failedfetchrequests_total"] == 0
    assert found['kafka_network_requestmetrics_requests_total{request="Produce"}'] == 4
    assert found['kafka_network_requestmetrics_requests_total{request="CreateTopics"}'] == 1
    assert found["kafka_server_replicamanager_partitioncount"] == 2
    assert found["kafka_server_replicamanager_leadercount"] == 2
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert found['kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}'] == 1


async def test_a_failed_directory_shows(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic("t", 3)
    (path,) = broker.parts.logs.online_dirs
    broker.parts.logs.fail_dir(path, "for this test")
    found = await read(broker)
    assert found["kafka_log_logmanager_offlinelogdirectorycount"] == 1
    assert found[f'kafka_log_logmanager_logdirectoryoffline{{logDirectory="{path}"}}'] == 1
    assert found["kafka_server_replicamanager_offlinereplicacount"] == 3
    assert found["kafka_server_replicamanager_partitioncount"] == 3
    assert found["kafka_server_replicamanager_leadercount"] == 0


async def test_every_metric_is_documented(broker: InProcessBroker | KafkaInstead) -> None:
    assert isinstance(broker, InProcessBroker)
    documented = OPERATIONS.read_text()
    registry = broker_metrics(broker.parts, lambda: True)
    assert [metric.name for metric in registry if f"`{metric.name}`" not in documented] == []
