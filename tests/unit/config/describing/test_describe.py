"""DescribeConfigs against what an Apache Kafka 4.3.1 answered with the same settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.config.describing.broker import describe_broker, describe_cluster_defaults
from moldau.config.describing.entry import ConfigEntry, ConfigSource
from moldau.config.describing.group import describe_group
from moldau.config.describing.topic import describe_new_topic, describe_topic
from moldau.config.options.broker import BrokerOptions
from moldau.config.types import ConfigType
from moldau.config.values.broker import BrokerConfig

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "kafka-4.3.1-describe.json").read_text()
)
SCENARIOS = [pytest.param(s, id=s["name"]) for s in RECORDED["scenarios"]]

DEVIATIONS = {
    "advertised.listeners",  # can be altered here
    "ssl.keystore.password",  # without effect here, so without a type
}


def configured(scenario: dict[str, Any]) -> BrokerConfig:
    config = BrokerConfig.load(RECORDED["properties"])
    return config.with_dynamic(scenario["cluster"], scenario["broker"])


def row(entry: ConfigEntry) -> list[Any]:
    synonyms = [list(synonym) for synonym in entry.synonyms]
    return [*entry[:3], entry.sensitive, entry.read_only, entry.type, synonyms]


def by_name(rows: list[list[Any]]) -> dict[str, list[Any]]:
    return {entry[0]: entry for entry in rows}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_broker_is_described_as_kafka_describes_it(scenario: dict[str, Any]) -> None:
    ours = by_name([row(entry) for entry in describe_broker(configured(scenario))])
    theirs = by_name(scenario["describe_broker"])
    # While log.retention.ms is set at run time, Kafka forgets the value of log.retention.hours.
    theirs["log.retention.hours"][1] = "24"

    assert set(ours) == set(theirs)
    for name in set(theirs) - DEVIATIONS:
        assert ours[name] == theirs[name]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_cluster_wide_defaults_are_described_as_kafka_does(scenario: dict[str, Any]) -> None:
    entries = describe_cluster_defaults(configured(scenario))

    assert by_name([row(entry) for entry in entries]) == by_name(scenario["describe_cluster"])


@pytest.mark.parametrize("topic", RECORDED["topics"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_topic_is_described_as_kafka_describes_it(scenario: dict[str, Any], topic: str) -> None:
    entries = describe_topic(configured(scenario), RECORDED["topics"][topic])

    ours = by_name([row(entry) for entry in entries])
    assert ours == by_name(scenario["describe_topics"][topic])


@pytest.mark.parametrize("topic", RECORDED["topics"])
def test_a_new_topic_is_answered_as_kafka_answers(topic: str) -> None:
    scenario = RECORDED["scenarios"][0]
    entries = describe_new_topic(configured(scenario), RECORDED["topics"][topic])

    assert sorted([list(entry[:3]) for entry in entries]) == scenario["created"][topic]


def test_names_restrict_the_answer() -> None:
    config = BrokerConfig.load()
    wanted = {"segment.ms", "no.such.setting"}

    assert [entry.name for entry in describe_topic(config, {}, wanted)] == ["segment.ms"]
    assert describe_broker(config, ["node.id"])[0].value == "1"
    assert describe_cluster_defaults(config, {"node.id"}) == []


def test_every_entry_says_what_it_is_for() -> None:
    entries = describe_broker(BrokerConfig.load()) + describe_topic(BrokerConfig.load(), {})

    assert all(entry.documentation for entry in entries)
    assert all(entry.type is not ConfigType.UNKNOWN for entry in entries)
    assert all(entry.source is ConfigSource.DEFAULT for entry in entries)


def test_settings_of_older_kafkas_are_described_when_somebody_set_them() -> None:
    assert describe_broker(BrokerConfig.load(), {"zookeeper.connect"}) == []
    config = BrokerConfig.load({"zookeeper.connect": "zk:2181"})
    (entry,) = describe_broker(config, {"zookeeper.connect"})
    assert entry.value == "zk:2181"
    assert entry.source is ConfigSource.SERVER_PROPERTIES


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ssl.keystore.password", False),
        ("sasl.jaas.config", False),
        ("listener.name.a.ssl.key.password", False),
        ("my.plugin.setting", False),
        ("ssl.keystore.location", True),
    ],
)
def test_what_may_be_a_secret_is_not_shown(name: str, shown: bool) -> None:
    (entry,) = describe_broker(BrokerConfig.load({name: "value"}), {name})

    assert entry.sensitive is not shown
    assert entry.value == ("value" if shown else None)
    assert [synonym.value for synonym in entry.synonyms] == [entry.value]


def test_a_stored_topic_value_that_no_longer_holds_is_shown_as_it_is() -> None:
    (entry,) = describe_topic(BrokerConfig.load(), {"segment.bytes": "5"}, {"segment.bytes"})

    assert entry.value == "5"


def test_internal_settings_are_described_only_when_set() -> None:
    assert describe_topic(BrokerConfig.load(), {}, {"internal.segment.bytes"}) == []
    assert BrokerOptions.table["log.initial.task.delay.ms"].internal
    assert describe_broker(BrokerConfig.load(), {"log.initial.task.delay.ms"}) == []


def test_the_brokers_file_is_among_the_sources() -> None:
    session = "consumer.session.timeout.ms"
    broker = BrokerConfig({f"group.{session}": "46000", "group.share.session.timeout.ms": "47000"})
    entries = {entry.name: entry for entry in describe_group(broker, {})}
    for name, value in ((session, "46000"), ("share.session.timeout.ms", "47000")):
        assert (entries[name].value, entries[name].source) == (
            value,
            ConfigSource.SERVER_PROPERTIES,
        )
        assert [(one.name, one.value) for one in entries[name].synonyms] == [
            (f"group.{name}", value),
            (f"group.{name}", "45000"),
        ]
