"""Clients' settings: Kafka's names and defaults, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau import Consumer, Producer
from moldau.client.settings import (
    ALL_REPLICAS,
    AdminSettings,
    CommonSettings,
    ConfigError,
    ConsumerSettings,
    ProducerSettings,
)
from moldau.client.settings.docs import settings_page

SERVERS = {"bootstrap.servers": "localhost:9092"}
PAGE = Path(__file__).parents[4] / "docs" / "client-settings.md"


def test_names_with_dots_and_with_underscores_mean_the_same() -> None:
    with_dots = ProducerSettings({**SERVERS, "linger.ms": 7})
    assert with_dots == ProducerSettings(SERVERS, linger_ms=7)
    assert with_dots.linger_ms == 7
    assert with_dots.explicit == {"bootstrap.servers", "linger.ms"}


def test_values_may_be_text_or_of_their_own_type() -> None:
    settings = ConsumerSettings(
        SERVERS, fetch_min_bytes="5", enable_auto_commit="false", client_id="c"
    )
    assert (settings.fetch_min_bytes, settings.enable_auto_commit) == (5, False)
    assert ProducerSettings(SERVERS, acks="all").acks == ALL_REPLICAS
    assert ProducerSettings(SERVERS, acks=1).acks == 1


def test_bootstrap_servers_are_text_or_a_list() -> None:
    expected = (("a", 9092), ("b", 1))
    assert CommonSettings(bootstrap_servers="a, b:1").bootstrap_servers == expected
    assert CommonSettings(bootstrap_servers=["a", "b:1"]).bootstrap_servers == expected


@pytest.mark.parametrize(
    ("settings", "wrong", "message"),
    [
        (ProducerSettings, {"linger_m": 5}, "did you mean 'linger_ms'?"),
        (ProducerSettings, {"batchsize": 5}, "did you mean 'batch.size'?"),
        (ProducerSettings, {"group_id": "g"}, "is a setting of a consumer, not of a producer"),
        (ConsumerSettings, {"linger.ms": 5}, "is a setting of a producer, not of a consumer"),
        (
            AdminSettings,
            {"interceptor.classes": ""},
            "a consumer and a producer, not of an admin client",
        ),
        (ProducerSettings, {"qwertz": 1}, "There is no setting 'qwertz' of a producer"),
        (
            ProducerSettings,
            {"linger_ms": "soon"},
            "soon for configuration linger.ms: Not a number",
        ),
        (
            ProducerSettings,
            {"linger_ms": -1},
            "for configuration linger.ms: Value must be at least 0",
        ),
        (
            ProducerSettings,
            {"linger_ms": 1.5},
            "configuration linger.ms: Not a number of type LONG",
        ),
        (ProducerSettings, {"linger_ms": None}, "linger.ms: must be of type long, not NoneType"),
        (ProducerSettings, {"linger_ms": 1, "linger.ms": 1}, "linger.ms is given twice"),
        (ProducerSettings, {"acks": 2}, "acks: must be one of: all, -1, 0, 1"),
        (ProducerSettings, {"compression_type": "rar"}, "must be one of: none, gzip"),
        (ProducerSettings, {"security_protocol": "TLS"}, "must be one of: PLAINTEXT, SSL, SASL_"),
        (ProducerSettings, {"ssl.cipher.suites": "x"}, "pass an ssl_context"),
        (ProducerSettings, {"enable_idempotence": True, "acks": 1}, "needs acks=all"),
        (ProducerSettings, {"transactional_id": "t", "retries": 0}, "needs retries above 0"),
        (
            ProducerSettings,
            {"transactional_id": "t", "enable_idempotence": False},
            "transactional.id needs enable.idempotence=true",
        ),
        (ProducerSettings, {"delivery_timeout_ms": 10}, "at least linger.ms plus request.timeout"),
        (ConsumerSettings, {"enable_auto_commit": True}, "needs a group.id"),
        (
            ConsumerSettings,
            {"group_id": "g", "group_protocol": "consumer", "session_timeout_ms": 5},
            "session.timeout.ms cannot be set with group.protocol=consumer",
        ),
        (ConsumerSettings, {"auto_offset_reset": "oldest"}, "must be earliest, latest, none, or"),
        (
            AdminSettings,
            {"default_api_timeout_ms": 1},
            "default.api.timeout.ms must be at least request.timeout.ms",
        ),
        (AdminSettings, {"bootstrap_servers": "a:b"}, "bootstrap.servers: 'a:b' is not"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_reason(
    settings: type[CommonSettings], wrong: dict[str, Any], message: str
) -> None:
    servers = {} if "bootstrap_servers" in wrong else SERVERS
    with pytest.raises(ConfigError) as caught:
        settings({**servers, **wrong})
    assert message in str(caught.value)


def test_settings_that_are_no_dictionary_are_refused_with_the_way_to_give_them() -> None:
    with pytest.raises(ConfigError, match="such as bootstrap_servers="):
        ProducerSettings("localhost:9092")  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [Producer, Consumer])
def test_large_messages_are_a_way_to_send_them(made: type[Producer | Consumer]) -> None:
    with pytest.raises(ConfigError, match=r"Chunking\(\) or ClaimCheck"):
        made(SERVERS, large_messages=True)  # type: ignore[arg-type]


def test_a_name_that_stands_for_no_code_is_refused_with_what_to_write() -> None:
    for name, wrong in (("value.serializer", "avro"), ("partitioner.class", "x")):
        with pytest.raises(ConfigError, match=r"package\.module:Name"):
            Producer({**SERVERS, name: wrong})


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"A producer needs bootstrap\.servers"):
        ProducerSettings()


def test_idempotence_gives_way_to_settings_that_contradict_it() -> None:
    assert ProducerSettings(SERVERS).enable_idempotence
    for name, value in (
        ("acks", 1),
        ("retries", 0),
        ("max_in_flight_requests_per_connection", 6),
    ):
        assert not ProducerSettings(SERVERS, **{name: value}).enable_idempotence


def test_a_long_linger_lengthens_the_default_delivery_timeout() -> None:
    assert ProducerSettings(SERVERS, linger_ms=200_000).delivery_timeout_ms == 230_000


def test_consumers_without_a_group_do_not_commit_by_themselves() -> None:
    assert ConsumerSettings(SERVERS, group_id="g").enable_auto_commit
    assert not ConsumerSettings(SERVERS).enable_auto_commit


def test_settings_are_frozen_and_show_what_was_given() -> None:
    settings = AdminSettings(SERVERS, client_id="me")
    with pytest.raises(AttributeError, match="do not change"):
        settings.client_id = "you"
    changed = settings.replace(client_id="you", retries=3)
    assert (changed.client_id, changed.retries) == ("you", 3)
    assert repr(settings) == (
        "AdminSettings(bootstrap_servers=(('localhost', 9092),), client_id='me')"
    )


def test_defaults_are_kafkas() -> None:
    producer = ProducerSettings(SERVERS)
    consumer = ConsumerSettings(SERVERS)
    assert (producer.batch_size, producer.linger_ms, producer.buffer_memory) == (16384, 5, 33554432)
    assert (producer.max_in_flight_requests_per_connection, producer.acks) == (5, ALL_REPLICAS)
    assert (producer.delivery_timeout_ms, producer.retries) == (120_000, 2**31 - 1)
    assert (consumer.session_timeout_ms, consumer.max_poll_records) == (45_000, 500)
    assert consumer.auto_offset_reset == "latest"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == settings_page(), "python -m moldau.client.settings.docs"
