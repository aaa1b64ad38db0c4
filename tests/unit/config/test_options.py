"""Single options: what they parse, refuse, print, and how they compare with Apache Kafka's."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config import BROKER_OPTIONS, TOPIC_OPTIONS, ConfigError, ConfigType
from moldau.config.ignored import IGNORED, is_ignored
from moldau.config.option import (
    MAX_INT,
    MAX_LONG,
    MIN_INT,
    MIN_LONG,
    AnyOption,
    Area,
    format_double,
    format_value,
)
from moldau.config.tables import BROKER_AREAS
from moldau.config.topic_options import TOPIC_SYNONYMS
from moldau.config.topic_values import TopicConfig
from moldau.config.validators import Between, OneOf, SomeOf


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
        return (TOPIC_OPTIONS if self.kind == "topic" else BROKER_OPTIONS).get(self.name)


def kafka_settings() -> list[KafkaSetting]:
    path = Path(__file__).parent / "data" / "kafka-4.3.1-settings.txt"
    lines = path.read_text().splitlines()
    return [KafkaSetting(*line.split("|")) for line in lines if not line.startswith("#")]


KAFKA = kafka_settings()
SHARED = [pytest.param(s, id=f"{s.kind} {s.name}") for s in KAFKA if s.ours is not None]

OUR_DEFAULTS = {"node.id", "process.roles", "controller.listener.names"}
"""Kafka has no default for these."""
FIXED_HERE = {"listeners", "listener.security.protocol.map"}
"""Kafka can open and close listeners while it runs."""
OTHER_RANGES = {
    "internal.segment.bytes",  # Kafka takes any number
    "leader.replication.throttled.replicas",  # has tests of its own
    "follower.replication.throttled.replicas",
}


def test_every_setting_of_kafka_is_an_option_or_accepted_without_effect() -> None:
    unknown = {s.name for s in KAFKA if s.ours is None and not is_ignored(s.name)}

    assert unknown == set()
    assert not {s.name for s in KAFKA if s.kind == "topic" and s.ours is None}
    assert not IGNORED & set(BROKER_OPTIONS)


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
    if setting.kind == "broker" and option.name not in FIXED_HERE:
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
    elif isinstance(option.allowed, OneOf | SomeOf):
        words = limits.removeprefix("(case insensitive) ").strip("[]")
        assert option.allowed.words == tuple(words.split(", "))
    else:
        assert option.allowed is None


def test_no_setting_is_declared_twice_and_every_one_is_documented() -> None:
    options = [option for area in BROKER_AREAS for option in area.options]

    assert len({option.name for option in options}) == len(options)
    for option in [*options, *TOPIC_OPTIONS.values()]:
        assert option.doc.endswith("."), option.name
        assert "|" not in option.doc, f"{option.name} would break its table"


def test_every_default_would_be_accepted_if_it_were_written_down() -> None:
    for option in [*BROKER_OPTIONS.values(), *TOPIC_OPTIONS.values()]:
        printed = option.format(option.default)
        if printed is not None:
            assert option.parse(printed) == option.default, option.name


def test_every_hot_topic_field_is_an_option_with_the_same_default() -> None:
    defaults = TopicConfig()
    for field in TopicConfig.__slots__:
        option = TOPIC_OPTIONS[field.replace("_", ".")]
        value = getattr(defaults, field)
        assert value == (frozenset(option.default) if field == "cleanup_policy" else option.default)


def test_broker_synonyms_have_the_topic_settings_type_and_default() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        option = TOPIC_OPTIONS[name]
        assert synonyms[0].option.type is option.type
        values = [s.option.default * s.factor for s in synonyms if s.option.default is not None]
        assert values[0] == option.default, name


AREA = Area("test", "")
INT = AREA.integer("some.int", 5, "doc", at_least=1, at_most=9)
LONG = AREA.long("some.long", 5, "doc")
SHORT = AREA.short("some.short", 5, "doc")
DOUBLE = AREA.double("some.double", 0.5, "doc", at_least=0, at_most=1)
BOOLEAN = AREA.boolean("some.boolean", False, "doc")
LIST = AREA.names("some.list", (), "doc")
WORD = AREA.string("some.word", "a", "doc", allowed=OneOf("Alpha", "Beta", any_case=True))
SECRET = AREA.add("some.secret", ConfigType.PASSWORD, str, None, "doc", allowed=OneOf("x"))


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (INT, "7", 7),
        (INT, "  7\t", 7),
        (INT, "+7", 7),
        (INT, "007", 7),
        (LONG, str(MAX_LONG), MAX_LONG),
        (LONG, str(MIN_LONG), MIN_LONG),
        (SHORT, "-32768", -32768),
        (DOUBLE, "1e-1", 0.1),
        (DOUBLE, ".5", 0.5),
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, " False ", False),
        (LIST, "", ()),
        (LIST, " a , b ,a", ("a", "b")),
        (WORD, "aLPHA", "aLPHA"),
    ],
)
def test_values_parse_as_kafka_parses_them(option: AnyOption, text: str, value: object) -> None:
    assert option.parse(text) == value


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        (INT, "0", "must be 1 to 9"),
        (INT, "10", "must be 1 to 9"),
        (INT, "2147483648", f"must be a whole number from {MIN_INT} to {MAX_INT}"),
        (INT, "1_0", f"must be a whole number from {MIN_INT} to {MAX_INT}"),
        (INT, "٣", f"must be a whole number from {MIN_INT} to {MAX_INT}"),
        (INT, "", f"must be a whole number from {MIN_INT} to {MAX_INT}"),
        (INT, "-", f"must be a whole number from {MIN_INT} to {MAX_INT}"),
        (INT, "0x7", f"must be a whole number from {MIN_INT} to {MAX_INT}"),
        (INT, "7.0", f"must be a whole number from {MIN_INT} to {MAX_INT}"),
        (LONG, "9223372036854775808", f"must be a whole number from {MIN_LONG} to {MAX_LONG}"),
        (SHORT, "32768", "must be a whole number from -32768 to 32767"),
        (DOUBLE, "1.5", "must be 0 to 1"),
        (DOUBLE, "half", "must be a number"),
        (DOUBLE, "NaN", "must be a number"),
        (DOUBLE, "1_0", "must be a number"),
        (BOOLEAN, "yes", "must be true or false"),
        (LIST, "a,,b", "must not have empty items between its commas"),
        (WORD, "gamma", "must be one of: Alpha, Beta"),
    ],
)
def test_a_refusal_names_key_value_and_what_is_allowed(
    option: AnyOption, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        option.parse(text)

    assert str(caught.value) == f"Invalid value {text} for configuration {option.name}: {reason}"


def test_a_refusal_does_not_show_a_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        SECRET.parse("hunter2")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00001, "1.0E-5"),
        (12_345_678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(value: float, text: str) -> None:
    assert format_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_double_reads_back_as_itself(value: float) -> None:
    assert float(format_double(value)) == value


@given(st.lists(st.text("abc.:*", min_size=1), unique=True))
def test_a_printed_list_reads_back_as_itself(items: list[str]) -> None:
    assert LIST.parse(format_value(tuple(items))) == tuple(items)


@pytest.mark.parametrize("text", ["*", "", "0:1", "0:1,12:3"])
def test_throttled_replicas_are_pairs_or_a_star(text: str) -> None:
    TOPIC_OPTIONS["leader.replication.throttled.replicas"].parse(text)


@pytest.mark.parametrize("text", ["*,0:1", "0", "0:", "a:b", "0:1:2"])
def test_other_throttled_replicas_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="partition:broker"):
        TOPIC_OPTIONS["leader.replication.throttled.replicas"].parse(text)
