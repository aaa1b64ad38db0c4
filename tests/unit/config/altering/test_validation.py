"""Whether settings of brokers, topics and groups may be stored."""

from __future__ import annotations

import re

import pytest

from moldau.config.altering.validation import (
    validate_broker_update,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_topic_configs,
)
from moldau.config.option import ConfigError
from moldau.config.values.broker import BrokerConfig
from moldau.errors import ErrorCode, KafkaError

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
WIDE = {
    "group.consumer.min.session.timeout.ms": "1",
    "group.consumer.max.session.timeout.ms": "99999",
}


def refused(
    settings: dict[str, str], *, per_broker: bool, config: BrokerConfig | None = None
) -> str:
    with pytest.raises(KafkaError) as caught:
        validate_broker_update(config or BrokerConfig.load(), settings, per_broker=per_broker)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    return caught.value.message


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num.partitions": "5"}, "Cannot update these configs dynamically: [num.partitions]"),
        ({"node.id": "3"}, "Cannot update these configs dynamically: [node.id]"),
        ({"log.retention.hours": "1"}, "Cannot update these configs dynamically"),
        ({"ssl.keystore.location": "x"}, "Cannot update these configs dynamically"),
        ({"log.segment.bytes": "10"}, "log.segment.bytes: Value must be at least 1048576"),
        ({"log.segment.bytes": "x"}, "Not a number of type"),
        ({"unclean.leader.election.enable": "maybe"}, "Expected value to be either true or false"),
        ({"log.retention.ms": "0"}, "log.retention.ms=0 would delete everything"),
        ({"log.cleaner.dedupe.buffer.size": "5"}, "must be more than 1 MiB"),
        ({"leader.replication.throttled.rate": "-1"}, "must be at least 0"),
    ],
)
def test_updates_that_kafka_refuses_too(
    settings: dict[str, str], sentence: str, per_broker: bool
) -> None:
    assert sentence in refused(settings, per_broker=per_broker)


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"log.retention.ms": "1000", "log.cleanup.policy": "compact"},
        {"leader.replication.throttled.rate": "100"},
        {"max.connections": "5"},
        {"listener.name.plaintext.max.connections": "5"},
        {"some.plugin.setting": "1"},
    ],
)
def test_updates_that_kafka_takes_too(settings: dict[str, str], per_broker: bool) -> None:
    validate_broker_update(BrokerConfig.load(), settings, per_broker=per_broker)


@pytest.mark.parametrize(
    "settings",
    [{"cordoned.log.dirs": "/a"}, {"listener.name.internal.ssl.keystore.location": "/tmp/k.jks"}],
)
def test_a_per_broker_setting_cannot_be_set_for_all(settings: dict[str, str]) -> None:
    validate_broker_update(BrokerConfig.load({"log.dirs": "/a"}), settings, per_broker=True)
    sentence = "Cannot update these configs at default cluster level, broker id must be specified: "
    assert refused(settings, per_broker=False) == sentence + f"[{', '.join(settings)}]"


def test_an_update_is_held_against_the_other_layer() -> None:
    config = BrokerConfig.load().with_dynamic({"log.cleaner.threads": "4"}, {})
    buffer = {"log.cleaner.dedupe.buffer.size": "4000000"}

    validate_broker_update(BrokerConfig.load(), buffer, per_broker=True)
    assert "log.cleaner.threads=4" in refused(buffer, per_broker=True, config=config)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
        ({"log.segment.bytes": "2000000"}, "Unknown topic config name: log.segment.bytes"),
        ({"segment.ms": None}, "Null value not supported for topic configs: segment.ms"),
        ({"segment.ms": ""}, "Not a number of type"),
        ({"retention.ms": "-2"}, "must be at least -1"),
        ({"max.message.bytes": "2147483648"}, "Not a number of type"),
        (
            {"cleanup.policy": "compact,tidy"},
            "Invalid value tidy for configuration cleanup.policy: String must be one of: comp",
        ),
        ({"compression.type": "GZIP"}, "must be one of: uncompressed, zstd, lz4, snappy, gzip"),
        ({"compression.gzip.level": "0"}, "Value must be between 1 and 9 or equal to -1"),
        ({"compression.lz4.level": "18"}, "Value must be no more than 17"),
        ({"preallocate": "yes"}, "Expected value to be either true or false"),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
            "min.compaction.lag.ms=100 must not exceed max.compaction.lag.ms=10",
        ),
    ],
)
def test_settings_that_a_topic_may_not_have(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_configs(settings)

    assert sentence in str(caught.value)


def test_a_topics_limit_is_held_against_what_the_broker_says() -> None:
    broker = BrokerConfig.load({"log.cleaner.min.compaction.lag.ms": "50"})
    validate_topic_configs({"max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms=50"):
        validate_topic_configs({"max.compaction.lag.ms": "10"}, broker)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cleanup.policy": ""},
        {"retention.bytes": "-5"},
        {"retention.ms": "-1"},
        {"compression.gzip.level": "-1"},
        {"internal.segment.bytes": "1"},
        {"local.retention.ms": "5"},
        {"follower.replication.throttled.replicas": "*"},
    ],
)
def test_settings_that_kafka_takes_too(settings: dict[str, str]) -> None:
    validate_topic_configs(settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({SESSION: "44999"}, f"{SESSION} must be greater than or equal to group.consumer.min"),
        ({SESSION: "60001"}, f"{SESSION} must be less than or equal to group.consumer.max"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
        ({"group.max.size": "3"}, "Unknown group config name: group.max.size"),
    ],
)
def test_refusals_name_the_bound(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace(".", r"\.")):
        validate_group_configs(settings, BrokerConfig({}))


def test_bounds_that_are_otherwise_without_effect_hold_too() -> None:
    broker = BrokerConfig({"group.share.max.delivery.count.limit": "20"})
    validate_group_configs({"share.delivery.count.limit": "20"}, broker)
    with pytest.raises(ConfigError, match=r"group\.share\.max\.delivery\.count\.limit"):
        validate_group_configs({"share.delivery.count.limit": "21"}, broker)


def test_a_session_must_outlive_a_heartbeat() -> None:
    with pytest.raises(ConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        validate_group_configs({SESSION: "5000"}, BrokerConfig(WIDE))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"metrics": ""},
        {"metrics": "*", "interval.ms": "100"},
        {"interval.ms": "3600000", "match": "client_id=a.*, client_source_port = 9092"},
        {"match": "client_software_name=x,client_software_version=[34].*"},
        {"match": "client_instance_id=b69cc35a,client_source_address=10\\..*"},
    ],
)
def test_a_client_metrics_subscription_may_have_these(settings: dict[str, str]) -> None:
    validate_client_metrics_configs(settings)


@pytest.mark.parametrize(
    ("settings", "code", "sentence"),
    [
        ({"retention.ms": "1"}, 42, "Unknown client metrics configuration: retention.ms"),
        ({"interval.ms": "99"}, 42, "Invalid value 99 for interval.ms, interval must be between"),
        ({"interval.ms": "3600001"}, 42, "between 100 and 3600000 (1 hour)"),
        ({"interval.ms": "soon"}, 40, "Invalid value soon for configuration interval.ms"),
        ({"metrics": "a,,b"}, 40, "metrics"),
        ({"match": "client_id"}, 40, "Illegal client matching pattern: client_id"),
        ({"match": "client_id="}, 40, "Illegal client matching pattern: client_id="),
        ({"match": "client_id=a=b"}, 40, "Illegal client matching pattern: client_id=a=b"),
        ({"match": "client_id=a,who=b"}, 40, "Illegal client matching pattern: who=b"),
        ({"match": "client_id=("}, 40, "Illegal client matching pattern: client_id=("),
    ],
)
def test_a_client_metrics_subscription_is_refused_as_by_kafka(
    settings: dict[str, str], code: int, sentence: str
) -> None:
    with pytest.raises(KafkaError, match=re.escape(sentence)) as caught:
        validate_client_metrics_configs(settings)
    assert caught.value.code == code
