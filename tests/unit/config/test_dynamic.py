"""Changing settings at run time."""

from __future__ import annotations

import pytest

from moldau.config import (
    BROKER_OPTIONS,
    TOPIC_OPTIONS,
    Alteration,
    AlterOp,
    BrokerConfig,
    apply_incremental,
    apply_replacement,
    validate_broker_update,
)
from moldau.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = AlterOp
POLICY = "cleanup.policy"


def alter(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    return apply_incremental(TOPIC_OPTIONS, current, [Alteration(*change) for change in changes])


def test_operations_change_only_what_they_name() -> None:
    before = {"segment.ms": "1", "retention.ms": "2", POLICY: "compact"}

    after = alter(
        before,
        ("segment.ms", SET, "5"),
        ("retention.ms", DELETE, None),
        ("flush.ms", SET, "6"),
        ("preallocate", DELETE, "ignored"),
    )

    assert after == {"segment.ms": "5", "flush.ms": "6", POLICY: "compact"}
    assert before == {"segment.ms": "1", "retention.ms": "2", POLICY: "compact"}


@pytest.mark.parametrize(
    ("stored", "operation", "value", "expected"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, SUBTRACT, "delete", ""),
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact", APPEND, "compact", "compact"),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "delete", "compact"),
        ("", APPEND, "compact", "compact"),
        ("compact", APPEND, "", "compact"),
        (" compact , delete", SUBTRACT, "compact,delete", ""),
    ],
)
def test_lists_grow_and_shrink_from_what_is_stored_or_else_the_default(
    stored: str | None, operation: int, value: str, expected: str
) -> None:
    current = {} if stored is None else {POLICY: stored}

    assert alter(current, (POLICY, operation, value)) == {POLICY: expected}


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        (("segment.ms", SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported"),
        (("segment.ms", APPEND, None), ErrorCode.INVALID_REQUEST, "Null value not supported"),
        (("segment.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "Unknown operation 9"),
        (("segment.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "Can't APPEND to key segment.ms"),
        (("nope", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG, "Can't SUBTRACT to key nope"),
    ],
)
def test_operations_that_make_no_sense(
    change: tuple[str, int, str | None], code: ErrorCode, sentence: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        alter({}, change)

    assert caught.value.code is code
    assert sentence in caught.value.message


def test_one_key_cannot_be_changed_twice() -> None:
    with pytest.raises(KafkaError) as caught:
        alter({}, ("segment.ms", SET, "1"), ("segment.ms", SET, "2"))

    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_replacement_takes_all_and_checks_the_same() -> None:
    assert apply_replacement([("segment.ms", "1"), (POLICY, "")]) == {"segment.ms": "1", POLICY: ""}
    for bad in ([("a", "1"), ("a", "2")], [("a", None)]):
        with pytest.raises(KafkaError) as caught:
            apply_replacement(bad)
        assert caught.value.code is ErrorCode.INVALID_REQUEST


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
        ({"num.partitions": "5"}, "Cannot update these configs dynamically: num.partitions"),
        ({"node.id": "3"}, "Cannot update these configs dynamically: node.id"),
        ({"log.retention.hours": "1"}, "Cannot update these configs dynamically"),
        ({"ssl.keystore.location": "x"}, "Cannot update these configs dynamically"),
        ({"log.segment.bytes": "10"}, "log.segment.bytes: must be at least 1048576"),
        ({"log.segment.bytes": "x"}, "must be a whole number"),
        ({"unclean.leader.election.enable": "maybe"}, "must be true or false"),
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


def test_a_per_broker_setting_cannot_be_set_for_all() -> None:
    settings = {"cordoned.log.dirs": "/a"}

    validate_broker_update(BrokerConfig.load({"log.dirs": "/a"}), settings, per_broker=True)
    assert "a broker id must be given: cordoned.log.dirs" in refused(settings, per_broker=False)


def test_an_update_is_held_against_the_other_layer() -> None:
    config = BrokerConfig.load().with_dynamic({"log.cleaner.threads": "4"}, {})
    buffer = {"log.cleaner.dedupe.buffer.size": "4000000"}

    validate_broker_update(BrokerConfig.load(), buffer, per_broker=True)
    assert "log.cleaner.threads=4" in refused(buffer, per_broker=True, config=config)


def test_broker_lists_grow_from_their_default_too() -> None:
    changes = [Alteration("log.cleanup.policy", APPEND, "compact")]

    assert apply_incremental(BROKER_OPTIONS, {}, changes) == {
        "log.cleanup.policy": "delete,compact"
    }
