"""Loading a broker's settings: files of both eras, precedence, warnings, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import pytest

from moldau.config.option import ConfigError
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.endpoints import Endpoint
from moldau.errors import ErrorCode

ZOOKEEPER_ERA = """
# The file that came with brokers of the ZooKeeper era, without most of its remarks.

broker.id=0

#listeners=PLAINTEXT://:9092
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1

offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

#log.flush.interval.messages=10000
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000

zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""

KRAFT_ERA = """
# The file for one node that is broker and controller.
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@localhost:9093

listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL

num.network.threads=3
num.io.threads=8
log.dirs=/tmp/kraft-combined-logs
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "server.properties"
    path.write_text(text)
    return path


def test_a_zookeeper_era_file_loads(tmp_path: Path) -> None:
    config = BrokerConfig.load(write(tmp_path, ZOOKEEPER_ERA))

    assert config.node_id == 0
    assert config.broker_id == 0
    assert config.log_directories == ("/tmp/kafka-logs",)
    assert config.zookeeper_connect == "localhost:2181"
    assert config.offsets_topic_replication_factor == 1
    assert config.endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.ignored == ()
    assert config.warnings == ()


def test_a_kraft_era_file_loads(tmp_path: Path) -> None:
    config = BrokerConfig.load(str(write(tmp_path, KRAFT_ERA)))

    assert config.node_id == 7
    assert config.endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "localhost", 9092),)
    assert set(config.ignored) == {
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    }
    assert config.warnings == ()


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    config = BrokerConfig.load(write(tmp_path, KRAFT_ERA), {"node.id": "3", "num.partitions": "4"})

    assert config.node_id == 3
    assert config.num_partitions == 4
    assert config.explicit["num.partitions"] == "4"
    assert config.is_set(BrokerConfig.num_partitions)
    assert not config.is_set(BrokerConfig.max_connections)


def test_without_settings_defaults_hold() -> None:
    config = BrokerConfig.load()

    assert config.node_id == 1
    assert config.auto_create_topics_enable is True
    assert config.log_segment_bytes == 1_073_741_824
    assert config.log_retention_ms is None
    assert dict(config.explicit) == {}
    assert not config.is_set(BrokerConfig.node_id)
    assert repr(config) == "BrokerConfig(node 1, 0 settings)"


def test_the_type_checker_knows_what_an_option_holds() -> None:
    config = BrokerConfig.load()

    assert_type(config.log_segment_bytes, int)
    assert_type(config.log_retention_ms, int | None)
    assert_type(config.auto_create_topics_enable, bool)
    assert_type(config.log_dirs, tuple[str, ...] | None)
    assert isinstance(config.log_segment_bytes, int)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(tmp_path / "none.properties")

    assert str(caught.value) == f"Cannot read {tmp_path}/none.properties: No such file or directory"
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_bad_value_stops_with_key_value_and_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load({"num.partitions": "0"})

    assert str(caught.value) == (
        "Invalid value 0 for configuration num.partitions: Value must be at least 1"
    )


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("log.retention.hour", "did you mean log.retention.hours?"),
        ("num.partition", "did you mean num.partitions?"),
        ("retention.ms", "did you mean log.retention.ms?"),
        ("segment.bytes", "did you mean log.segment.bytes?"),
        ("port", "write listeners=PLAINTEXT://host:port instead"),
    ],
)
def test_an_unknown_key_warns_with_the_nearest_known_one(key: str, hint: str) -> None:
    (warning,) = BrokerConfig.load({key: "1"}).warnings

    assert f"setting {key} is ignored; {hint}" in warning


def test_an_unknown_key_without_a_near_one_warns_too() -> None:
    config = BrokerConfig.load({"confluent.balancer.enable": "true"})

    assert config.warnings == ("The unknown setting confluent.balancer.enable is ignored",)
    assert config.explicit["confluent.balancer.enable"] == "true"


@pytest.mark.parametrize(
    "key",
    ["ssl.keystore.location", "sasl.jaas.config", "listener.name.plaintext.ssl.keystore.type",
     "metric.reporters", "inter.broker.protocol.version", "remote.log.reader.threads"],
)  # fmt: skip
def test_keys_that_others_know_load_in_silence(key: str) -> None:
    config = BrokerConfig.load({key: "something"})

    assert config.warnings == ()
    assert config.ignored == (key,)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"process.roles": "controller"}, "write process.roles=broker,controller"),
        ({"authorizer.class.name": "org.x.Acl"}, "authorizer.class.name=org.x.Acl asks for access"),
        ({"remote.log.storage.system.enable": "true"}, "asks for tiered storage"),
        ({"group.consumer.assignors": "range,org.x.Mine"}, "assignors=org.x.Mine asks for an as"),
        ({"group.consumer.assignors": ""}, "there are: uniform, range"),
        ({"config.providers": "env", "log.dirs": "${env:DIR}"}, "log.dirs holds a ${...} place"),
        ({"log.dirs": "/a,/b", "cordoned.log.dirs": "/c,/b"}, "missing there: /c"),
        ({"log.dirs": "/a,/b", "cordoned.log.dirs": "*,/b"}, "name no others"),
    ],
)
def test_what_would_be_dangerous_to_ignore_is_refused(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(settings)

    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"controller.quorum.voters": "1@a:1,2@b:1"}, "names other nodes (2@b:1)"),
        ({"create.topic.policy.class.name": "org.x.P"}, "Java classes cannot be loaded"),
    ],
)
def test_what_promises_more_than_it_does_warns(settings: dict[str, str], sentence: str) -> None:
    (warning,) = BrokerConfig.load(settings).warnings

    assert sentence in warning


@pytest.mark.parametrize(
    "settings", [{"node.id": "5"}, {"broker.id": "5"}, {"broker.id": " 5 ", "node.id": "5"}]
)
def test_node_id_and_broker_id_are_one_setting(settings: dict[str, str]) -> None:
    config = BrokerConfig.load(settings)

    assert config.node_id == config.broker_id == 5
    assert config.is_set(BrokerConfig.node_id)
    assert config.is_set(BrokerConfig.broker_id)
    assert dict(config.explicit) == settings


def test_node_id_and_broker_id_must_agree() -> None:
    with pytest.raises(ConfigError, match=r"node\.id=1 and broker\.id=2"):
        BrokerConfig.load({"node.id": "1", "broker.id": "2"})


def test_broker_id_minus_one_means_not_set() -> None:
    assert BrokerConfig.load({"broker.id": "-1"}).node_id == 1
    assert BrokerConfig.load({"broker.id": "-1", "node.id": "4"}).node_id == 4


@pytest.mark.parametrize(
    "connect",
    [
        "zk1:2181chroot",
        "zk1:99999",
        "zk1:0",
        "zk1:2181:3",
        "zk1:2181,",
        ",/kafka",
        "zk1:2181//kafka",
    ],
)
def test_an_ensemble_that_cannot_be_is_refused_before_anything_is_tried(connect: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect="):
        BrokerConfig.load({"zookeeper.connect": connect})


@pytest.mark.parametrize(
    "connect",
    [
        "zk1",
        "zk1:2181",
        "zk1:2181, zk2:2182/kafka/a",
        "[::1]:2181",
        "[::1]/kafka",
        "zk1/kafka/",
        "",
    ],
)
def test_ensembles(connect: str) -> None:
    assert (BrokerConfig.load({"zookeeper.connect": connect}).zookeeper_connect or "") == connect


def test_log_dirs_win_over_log_dir() -> None:
    assert BrokerConfig.load({"log.dir": "/a"}).log_directories == ("/a",)
    assert BrokerConfig.load({"log.dir": "/a", "log.dirs": "/b, /c"}).log_directories == (
        "/b",
        "/c",
    )
    with pytest.raises(ConfigError, match="at least one directory"):
        BrokerConfig.load({"log.dirs": ""})


HOURS, MINUTES, MS = "log.retention.hours", "log.retention.minutes", "log.retention.ms"


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({HOURS: "2"}, "retention_ms", 7_200_000),
        ({HOURS: "2", MINUTES: "3"}, "retention_ms", 180_000),
        ({HOURS: "2", MINUTES: "3", MS: "4"}, "retention_ms", 4),
        ({HOURS: "-1"}, "retention_ms", -1),
        ({MS: "-7"}, "retention_ms", -1),
        ({"log.roll.hours": "2"}, "segment_ms", 7_200_000),
        ({"log.roll.hours": "2", "log.roll.ms": "5"}, "segment_ms", 5),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.roll.jitter.hours": "1", "log.roll.jitter.ms": "0"}, "segment_jitter_ms", 0),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush_ms", 9),
        ({"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"}, "flush_ms", 8),
        ({"log.segment.bytes": "2000000"}, "segment_bytes", 2_000_000),
        ({"log.segment.delete.delay.ms": "1"}, "file_delete_delay_ms", 1),
        ({"log.cleanup.policy": "compact"}, "cleanup_policy", frozenset({"compact"})),
        ({"message.max.bytes": "9"}, "max_message_bytes", 9),
        ({"compression.type": "zstd"}, "compression_type", "zstd"),
        ({"min.insync.replicas": "2"}, "min_insync_replicas", 2),
    ],
)
def test_topics_take_their_defaults_from_the_broker(
    settings: dict[str, str], name: str, expected: object
) -> None:
    assert getattr(BrokerConfig.load(settings).topic_defaults, name) == expected


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"log.retention.ms": "0"}, "log.retention.ms=0 would delete everything"),
        ({"log.roll.ms": "0"}, "log.roll.ms or log.roll.hours gives 0 ms"),
        ({"log.roll.jitter.ms": "-1"}, "must be at least 0"),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads=0"),
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, "must be more than 1 MiB"),
        ({"replica.fetch.wait.max.ms": "40000"}, "must not exceed replica.socket.timeout.ms=30000"),
        (
            {"replica.fetch.wait.max.ms": "20000", "replica.lag.time.max.ms": "10000"},
            "must not exceed replica.lag.time.max.ms=10000",
        ),
        ({"group.min.session.timeout.ms": "9000000"}, "group.max.session.timeout.ms=1800000"),
        ({"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
         "log.cleaner.min.compaction.lag.ms=9 must not exceed"),
        ({"queued.max.request.bytes": "5"}, "must be -1, or at least socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "lets nobody in"),
        ({"max.connections.per.ip.overrides": "a:b"}, "must be host:count pairs"),
        ({"connections.max.idle.ms": "100"}, "must be less than connections.max.idle.ms=100"),
    ],
)  # fmt: skip
def test_settings_that_cannot_hold_together_are_refused(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(settings)

    assert sentence in str(caught.value)


def test_connection_limits_for_single_addresses() -> None:
    config = BrokerConfig.load(
        {
            "max.connections.per.ip": "0",
            "max.connections.per.ip.overrides": "127.0.0.1:5, [::1]:6 ,host.example:7",
        }
    )

    assert config.max_connections_by_ip() == {
        "127.0.0.1": 5,
        "::1": 6,
        "host.example": 7,
    }


def test_run_time_values_win_over_the_file_and_a_brokers_over_the_clusters() -> None:
    static = BrokerConfig.load({"log.segment.bytes": "2000000", "max.connections": "5"})
    config = static.with_dynamic(
        {"log.segment.bytes": "3000000", "log.retention.ms": "1"}, {"log.segment.bytes": "4000000"}
    )

    assert config.log_segment_bytes == 4_000_000
    assert config.log_retention_ms == 1
    assert config.max_connections == 5
    assert config.topic_defaults.segment_bytes == 4_000_000
    assert static.log_segment_bytes == 2_000_000
    assert config.with_dynamic({}, {}).log_segment_bytes == 2_000_000


def test_a_stored_run_time_value_that_does_not_hold_is_left_out_with_a_warning() -> None:
    config = BrokerConfig.load().with_dynamic({"num.io.threads": "none"}, {"node.id": "9"})

    assert config.num_io_threads == 8
    assert config.node_id == 1
    (warning,) = config.warnings
    assert "num.io.threads" in warning


def test_stored_run_time_values_that_do_not_fit_together_are_left_out_with_a_warning() -> None:
    config = BrokerConfig.load().with_dynamic({"log.retention.ms": "0"}, {"max.connections": "3"})

    assert config.log_retention_ms is None
    assert config.max_connections != 3
    (warning,) = config.warnings
    assert "run-time settings are left out" in warning


def test_strict_run_time_values_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.ms=0"):
        BrokerConfig.load().with_dynamic({"log.retention.ms": "0"}, {}, strict=True)
    with pytest.raises(ConfigError, match=r"num\.io\.threads"):
        BrokerConfig.load().with_dynamic({"num.io.threads": "0"}, {}, strict=True)


OF_EXTRA = "listener.name.extra.max.connections"


def test_a_listeners_own_limit_goes_before_the_brokers() -> None:
    static = BrokerConfig.load({OF_EXTRA: "5", "max.connections": "9"})
    config = static.with_dynamic({"listener.name.plaintext.max.connections": "3"}, {OF_EXTRA: "6"})

    def limits(config: BrokerConfig) -> list[int]:
        names = ("EXTRA", "PLAINTEXT", "OTHER")
        return [config.listener_value(name, BrokerConfig.max_connections) for name in names]

    assert limits(static) == [5, 9, 9]
    assert limits(config) == [6, 3, 9]
    assert not static.ignored
    assert not static.warnings


def test_a_listeners_limit_has_to_be_a_number() -> None:
    with pytest.raises(ConfigError, match=r"x for configuration max\.connections: Not a number"):
        BrokerConfig.load({OF_EXTRA: "x"})
    config = BrokerConfig.load().with_dynamic({}, {OF_EXTRA: "x"})
    assert config.listener_value("EXTRA", BrokerConfig.max_connections) == config.max_connections
    assert len(config.warnings) == 1


def test_listeners_set_at_run_time_win_over_the_file_and_come_back_without() -> None:
    static = BrokerConfig.load({"listeners": "PLAINTEXT://a:1"})
    config = static.with_dynamic(
        {},
        {
            "listeners": "PLAINTEXT://a:1,EXTRA://a:2",
            "advertised.listeners": "PLAINTEXT://b:3",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
        },
    )

    assert [str(one) for one in config.endpoints] == ["PLAINTEXT://a:1", "EXTRA://a:2"]
    assert [str(one) for one in config.advertised_endpoints] == ["PLAINTEXT://b:3"]
    assert config.with_dynamic({}, {}).endpoints == static.endpoints


def test_stored_listeners_that_cannot_be_opened_are_left_out_with_a_warning() -> None:
    config = BrokerConfig.load({"listeners": "PLAINTEXT://a:1"}).with_dynamic(
        {}, {"listeners": "UNKNOWN://a:2"}
    )

    assert [str(one) for one in config.endpoints] == ["PLAINTEXT://a:1"]
    (warning,) = config.warnings
    assert "no protocol is known for the listener UNKNOWN" in warning


@pytest.mark.parametrize(
    ("setting", "bytes_of_requests"),
    [(None, 1000), ("-1", 1000), ("0", 1000), ("104857600", 104857600)],
)
def test_requests_have_a_quarter_of_the_memory_unless_somebody_says_more(
    setting: str | None, bytes_of_requests: int
) -> None:
    config = BrokerConfig.load({} if setting is None else {"queued.max.request.bytes": setting})
    assert config.request_memory(4000) == bytes_of_requests


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"zookeeper.set.acl": "true"}, "needs zookeeper.digest.credentials"),
        ({"zookeeper.digest.credentials": "secret"}, "is not of the form user:password"),
    ],
)
def test_credentials_for_zookeeper_are_whole(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BrokerConfig.load(settings)
