"""The tables of options, compared with those of Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.config.option import AnyOption, ConfigError
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group import GroupOptions
from moldau.config.options.ignored import ignored_names, is_ignored
from moldau.config.options.topic import TopicOptions
from moldau.config.validators import Between, OneOf


class KafkaSetting(NamedTuple):
    kind: str
    name: str
    type: str
    default: str
    range: str
    internal: str
    update: str

    @property
    def ours(self) -> AnyOption | None:
        return (TopicOptions.table if self.kind == "topic" else BrokerOptions.table).get(self.name)


def kafka_settings() -> list[KafkaSetting]:
    path = Path(__file__).parent / "data" / "kafka-4.3.1-settings.txt"
    lines = path.read_text().splitlines()
    return [KafkaSetting(*line.split("|")) for line in lines if not line.startswith("#")]


KAFKA = kafka_settings()
SHARED = [pytest.param(s, id=f"{s.kind} {s.name}") for s in KAFKA if s.ours is not None]

EVERY_OPTION: list[AnyOption] = [
    *BrokerOptions.table.values(),
    *TopicOptions.table.values(),
    *GroupOptions.table.values(),
]

OUR_DEFAULTS = {"node.id", "process.roles", "controller.listener.names"}
"""Kafka has no default for these."""
CHANGEABLE_HERE = {"advertised.listeners"}
"""Kafka with ZooKeeper took it from one broker; Kafka without cannot change registrations."""
OTHER_RANGES = {
    "internal.segment.bytes",  # Kafka takes any number
    "leader.replication.throttled.replicas",  # has tests of its own
    "follower.replication.throttled.replicas",
}


def test_every_setting_of_kafka_is_an_option_or_accepted_without_effect() -> None:
    unknown = {s.name for s in KAFKA if s.ours is None and not is_ignored(s.name)}

    assert unknown == set()
    assert not {s.name for s in KAFKA if s.kind == "topic" and s.ours is None}
    assert not ignored_names() & set(BrokerOptions.table)


@pytest.mark.parametrize("setting", SHARED)
def test_type_default_and_update_mode_are_kafkas(setting: KafkaSetting) -> None:
    option = setting.ours
    assert option is not None

    assert option.type.name == setting.type
    assert option.internal is (setting.internal == "true")
    if option.name not in OUR_DEFAULTS:
        printed = option.format(option.default)
        if setting.type == "LIST" and printed is not None:
            printed = f"[{printed.replace(',', ', ')}]"
        assert ("null" if printed is None else printed) == setting.default
    if setting.kind == "broker" and option.name not in CHANGEABLE_HERE:
        assert option.update.value == setting.update


@pytest.mark.parametrize("setting", SHARED)
def test_the_allowed_values_are_kafkas(setting: KafkaSetting) -> None:
    option = setting.ours
    assert option is not None
    limits, _, exception = setting.range.partition(" or ")
    low, dots, high = limits.strip("[]").partition(",...")

    if option.name in OTHER_RANGES:
        return
    if dots:
        assert isinstance(option.allowed, Between)
        assert str(option.allowed.low) == low
        assert option.allowed.high == (float(high[1:]) if high else None)
        assert option.allowed.also == (float(exception) if exception else None)
    elif isinstance(option.allowed, OneOf):
        words = limits.removeprefix("(case insensitive) ").strip("[]")
        assert option.allowed.words == tuple(words.split(", "))
    else:
        assert option.allowed is None


def test_no_setting_is_declared_twice_and_every_one_is_documented() -> None:
    sections: list[dict[str, AnyOption]] = [
        vars(section)["table"] for section in BrokerOptions.__bases__
    ]

    assert len(BrokerOptions.table) == sum(len(section) for section in sections)
    for option in EVERY_OPTION:
        assert option.doc.endswith("."), option.name
        assert "|" not in option.doc, f"{option.name} would break its table"


def test_every_default_would_be_accepted_if_it_were_written_down() -> None:
    for option in EVERY_OPTION:
        printed = option.format(option.default)
        if printed is not None:
            assert option.parse(printed) == option.default, option.name


def test_the_brokers_options_behind_others_have_their_type_and_default() -> None:
    for option in (*TopicOptions.table.values(), *GroupOptions.table.values()):
        if option.synonyms:
            assert option.synonyms[0].option.type is option.type
            defaults = [(one.option.default, one.factor) for one in option.synonyms]
            values = [value * factor for value, factor in defaults if value is not None]
            assert values[0] == option.default, option.name


@pytest.mark.parametrize("text", ["*", "", "0:1", "0:1,12:3"])
def test_throttled_replicas_are_pairs_or_a_star(text: str) -> None:
    TopicOptions.table["leader.replication.throttled.replicas"].parse(text)


@pytest.mark.parametrize("text", ["*,0:1", "0", "0:", "a:b", "0:1:2"])
def test_other_throttled_replicas_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="partition:broker"):
        TopicOptions.table["leader.replication.throttled.replicas"].parse(text)
