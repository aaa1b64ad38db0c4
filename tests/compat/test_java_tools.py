"""Kafka's own command line tools, as its distribution has them in bin/."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.compat.conftest import ClientPool
from tests.support import java
from tests.support.clients.base import Sample
from tests.support.clients.confluent import ConfluentKafka
from tests.support.target import Target

TOOLS = "Kafka's tools"

_numbers = count()

RunTool = Callable[..., str]


@pytest.fixture
def tool(target: Target) -> RunTool:
    """Runs a tool against the broker under test."""

    def run(main: str, *args: str, stdin: bytes = b"") -> str:
        server = ("--bootstrap-server", target.bootstrap)
        return java.run_tool(main, *server, *args, stdin=stdin).decode()

    return run


@pytest.fixture
def client(clients: ClientPool) -> ConfluentKafka:
    return clients.get(ConfluentKafka)


@pytest.fixture
def topic(client: ConfluentKafka) -> str:
    name = f"tools-{next(_numbers)}"
    client.create_topic(name, 1)
    return name


@pytest.mark.one_broker
@pytest.mark.compat("TopicCommand", TOOLS)
def test_topic_command_lives_through_the_life_of_a_topic(tool: RunTool) -> None:
    name = f"tools-{next(_numbers)}"
    create = ("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=60000")
    assert f"Created topic {name}." in tool(java.TOPICS, *create)
    assert name in tool(java.TOPICS, "--list").split()
    tool(java.TOPICS, "--alter", "--topic", name, "--partitions", "3")
    described = tool(java.TOPICS, "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=60000" in described
    assert described.count("Leader: 1") == 3
    tool(java.TOPICS, "--delete", "--topic", name)
    assert name not in tool(java.TOPICS, "--list").split()


@pytest.mark.compat("ConfigCommand", TOOLS)
def test_config_command_describes_and_alters(tool: RunTool, topic: str) -> None:
    resource = ("--entity-type", "topics", "--entity-name", topic)
    tool(java.CONFIGS, *resource, "--alter", "--add-config", "max.message.bytes=64000")
    described = tool(java.CONFIGS, *resource, "--describe")
    assert "max.message.bytes=64000" in described
    assert "DYNAMIC_TOPIC_CONFIG:max.message.bytes=64000" in described
    assert "DEFAULT_CONFIG:message.max.bytes=1048588" in described
    tool(java.CONFIGS, *resource, "--alter", "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in tool(java.CONFIGS, *resource, "--describe")


@pytest.mark.compat("ConfigCommand", TOOLS)
def test_config_command_describes_all_settings_of_a_broker(tool: RunTool) -> None:
    described = tool(
        java.CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"
    )
    assert "log.segment.bytes=1073741824 sensitive=false" in described
    assert "num.partitions=1 sensitive=false" in described


@pytest.mark.compat("ConfigCommand", TOOLS)
def test_config_command_changes_levels_of_loggers(tool: RunTool) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    tool(java.CONFIGS, *loggers, "--alter", "--add-config", "root=ERROR")
    assert "root=ERROR sensitive=false" in tool(java.CONFIGS, *loggers, "--describe")
    with pytest.raises(RuntimeError, match="the root logger is not allowed"):
        tool(java.CONFIGS, *loggers, "--alter", "--delete-config", "root")


@pytest.mark.compat("ClientMetricsCommand", TOOLS)
def test_client_metrics_command_keeps_subscriptions(tool: RunTool) -> None:
    name = ("--name", f"tools-{next(_numbers)}")
    wanted = ("--metrics", "org.apache.kafka.", "--interval", "60000", "--match", "client_id=a.*")
    tool(java.CLIENT_METRICS, "--alter", *name, *wanted)
    described = tool(java.CLIENT_METRICS, "--describe", *name)
    for setting in ("metrics=org.apache.kafka.", "interval.ms=60000", "match=client_id=a.*"):
        assert f"  {setting}\n" in described
    tool(java.CLIENT_METRICS, "--delete", *name)
    assert name[1] not in tool(java.CLIENT_METRICS, "--list").split()


@pytest.mark.compat("LeaderElectionCommand", TOOLS)
def test_leader_election_command_finds_the_leader_elected(tool: RunTool, topic: str) -> None:
    partition = ("--topic", topic, "--partition", "0")
    printed = tool(java.ELECT_LEADERS, "--election-type", "preferred", *partition)
    assert f"Valid replica already elected for partitions {topic}-0" in printed


@pytest.mark.compat("ReassignPartitionsCommand", TOOLS)
def test_reassign_partitions_command_finds_nothing_on_the_move(tool: RunTool) -> None:
    assert "No partition reassignments found." in tool(java.REASSIGN_PARTITIONS, "--list")


@pytest.mark.compat("AclCommand", TOOLS)
def test_acl_command_is_told_that_there_is_no_authorizer(target: Target) -> None:
    server = ("--bootstrap-server", target.bootstrap)
    with pytest.raises(RuntimeError, match="No Authorizer is configured on the broker"):
        java.run_tool(java.ACLS, *server, "--list")


@pytest.mark.compat("GetOffsetShell", TOOLS)
def test_get_offset_shell_prints_earliest_latest_and_by_timestamp(
    tool: RunTool, client: ConfluentKafka, topic: str
) -> None:
    start_ms = 1_700_000_000_000
    written = [Sample(None, b"value", (), start_ms + n * 1000) for n in range(10)]
    client.write(topic, written, "none")
    client.delete_records(topic, 4)
    for time, offset in (("-1", 10), ("-2", 4), ("-3", 9), (str(start_ms + 6500), 7)):
        printed = tool(java.GET_OFFSETS, "--topic", topic, "--time", time)
        assert printed.strip() == f"{topic}:0:{offset}"


@pytest.mark.compat("ProducerPerformance", TOOLS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_producer_performance(
    target: Target, client: ConfluentKafka, topic: str, acks: str
) -> None:
    args = f"--topic {topic} --num-records 5000 --record-size 200 --throughput -1 --producer-props"
    props = (f"bootstrap.servers={target.bootstrap}", f"acks={acks}", "enable.idempotence=false")
    printed = java.run_tool(java.PRODUCER_PERFORMANCE, *args.split(), *props).decode()
    assert "5000 records sent" in printed
    assert len(client.read(topic, 5000)) == 5000
    assert client.latest_offset(topic) == 5000


@pytest.mark.compat("VerifiableProducer", TOOLS)
def test_verifiable_producer_has_every_record_acknowledged(
    tool: RunTool, client: ConfluentKafka, topic: str
) -> None:
    printed = tool(java.VERIFIABLE_PRODUCER, "--topic", topic, "--max-messages", "500")
    events = [json.loads(line) for line in printed.splitlines()]
    acknowledged = [event for event in events if event["name"] == "producer_send_success"]
    assert sorted(event["offset"] for event in acknowledged) == list(range(500))
    assert not [event for event in events if event["name"] == "producer_send_error"]
    values = [sample.value for sample in client.read(topic, 500)]
    assert values == [str(n).encode() for n in range(500)]


@pytest.mark.compat("ConsoleProducer", TOOLS)
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_console_producer_writes_keys_headers_and_nulls(
    tool: RunTool, client: ConfluentKafka, topic: str, codec: str
) -> None:
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    options = [option for item in properties for option in ("--reader-property", item)]
    lines = b"a:1,b:2\tkey\tvalue\nNULL\tgone\tNULL\n"
    tool(
        java.CONSOLE_PRODUCER,
        "--topic",
        topic,
        "--compression-codec",
        codec,
        *options,
        stdin=lines,
    )
    read = [sample.without_timestamp() for sample in client.read(topic, 2)]
    assert read == [
        Sample(b"key", b"value", (("a", b"1"), ("b", b"2"))),
        Sample(b"gone", None),
    ]


@pytest.mark.compat("ConsoleConsumer --partition", TOOLS)
def test_console_consumer_reads_a_partition(
    tool: RunTool, client: ConfluentKafka, topic: str
) -> None:
    client.write(topic, [Sample(b"k%d" % n, b"v%d" % n) for n in range(20)], "snappy")
    args = f"--topic {topic} --partition 0 --offset 5 --max-messages 10 --timeout-ms 100000"
    printed = tool(java.CONSOLE_CONSUMER, *args.split(), "--formatter-property", "print.key=true")
    assert printed.splitlines() == [f"k{n}\tv{n}" for n in range(5, 15)]


@pytest.mark.compat("DeleteRecordsCommand", TOOLS)
def test_delete_records_command(
    tool: RunTool, client: ConfluentKafka, topic: str, tmp_path: Path
) -> None:
    client.write(topic, [Sample(None, b"value")] * 10, "none")
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 6}]}
    file = tmp_path / "delete.json"
    file.write_text(json.dumps(wanted))
    printed = tool(java.DELETE_RECORDS, "--offset-json-file", str(file))
    assert "low_watermark: 6" in printed
    assert client.earliest_offset(topic) == 6


@pytest.mark.one_broker
@pytest.mark.compat("LogDirsCommand", TOOLS)
def test_log_dirs_command(
    tool: RunTool, client: ConfluentKafka, topic: str, target: Target
) -> None:
    client.write(topic, [Sample(None, b"value")], "none")
    printed = tool(java.LOG_DIRS, "--describe", "--topic-list", topic)
    (broker,) = json.loads(printed[printed.index("{") :])["brokers"]
    (log_dir,) = broker["logDirs"]
    assert log_dir["logDir"] == str(target.data_dir)
    assert log_dir["error"] is None
    (partition,) = log_dir["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 0


@pytest.mark.compat("BrokerApiVersionsCommand", TOOLS)
def test_broker_api_versions_command(tool: RunTool) -> None:
    printed = tool(java.API_VERSIONS)
    assert "Produce(0): 0 to 13 [usable: 13]" in printed
    assert "Fetch(1): 4 to 18 [usable: 18]" in printed


@pytest.mark.compat("ClusterTool", TOOLS)
def test_cluster_tool_prints_the_cluster_id(target: Target) -> None:
    server = ("--bootstrap-server", target.bootstrap)
    printed = java.run_tool(java.CLUSTER, "cluster-id", *server).decode()
    expected = dict(
        line.split("=", 1)
        for line in (target.data_dir / "meta.properties").read_text().splitlines()
        if "=" in line
    )["cluster.id"]
    assert f"Cluster ID: {expected}" in printed
