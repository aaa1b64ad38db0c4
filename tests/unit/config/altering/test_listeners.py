"""What may change of listeners while a broker runs."""

from __future__ import annotations

import pytest

from moldau.config.altering.listeners import check_listeners
from moldau.config.altering.validation import validate_broker_update
from moldau.config.option import ConfigError
from moldau.config.values.broker import BrokerConfig
from moldau.errors import ErrorCode, KafkaError

PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"
BOTH = "PLAINTEXT://a:1,EXTRA://a:2"
MECHANISMS = "listener.name.plaintext.sasl.enabled.mechanisms"


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig.load(
        {"listeners": "PLAINTEXT://a:1", "listener.security.protocol.map": PROTOCOLS}
    )


def refusal(config: BrokerConfig, **settings: str) -> str:
    with pytest.raises(KafkaError) as caught:
        update(config, **settings)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    return caught.value.message


def update(config: BrokerConfig, **settings: str) -> BrokerConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return validate_broker_update(config, named, per_broker=True)


def test_what_would_hold_is_returned(config: BrokerConfig) -> None:
    changed = update(config, listeners=BOTH, advertised_listeners="PLAINTEXT://b:3")
    assert [str(one) for one in changed.endpoints] == BOTH.split(",")
    assert [str(one) for one in changed.advertised_endpoints] == ["PLAINTEXT://b:3"]
    assert [str(one) for one in config.endpoints] == ["PLAINTEXT://a:1"]


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners"])
def test_listeners_are_each_brokers_own(config: BrokerConfig, name: str) -> None:
    with pytest.raises(KafkaError, match="broker id must be specified") as caught:
        validate_broker_update(config, {name: "PLAINTEXT://a:1"}, per_broker=False)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_what_is_advertised_has_to_be_opened(config: BrokerConfig) -> None:
    advertised = "PLAINTEXT://a:1,EXTRA://a:2"
    message = refusal(config, advertised_listeners=advertised)
    assert message.endswith("listeners has no listener named EXTRA")
    update(config, advertised_listeners=advertised, listeners=BOTH)


def test_brokers_have_to_reach_each_other(config: BrokerConfig) -> None:
    assert "Brokers reach each other through the listener PLAINTEXT" in refusal(
        config, listeners="EXTRA://a:2"
    )
    assert "Brokers reach each other through the listener PLAINTEXT" in refusal(
        config, listeners=BOTH, advertised_listeners="EXTRA://a:2"
    )


def test_an_open_listener_keeps_its_settings_when_others_come(config: BrokerConfig) -> None:
    settings = {"listeners": BOTH, MECHANISMS.replace(".", "_"): "PLAIN"}
    assert refusal(config, **settings) == (
        "Configs cannot be updated dynamically for existing listener PLAINTEXT, restart broker or "
        "create a new listener for update"
    )
    update(config, listeners=BOTH, listener_name_extra_sasl_enabled_mechanisms="PLAIN")
    update(config, listeners=BOTH, listener_name_plaintext_ssl_keystore_location="/k")
    # Alone they are not looked at, as in Kafka.
    update(config, **{MECHANISMS.replace(".", "_"): "PLAIN"})


def test_an_open_listener_keeps_its_protocol(config: BrokerConfig) -> None:
    changed = update(config, listeners=BOTH)
    changed.endpoints = tuple(one._replace(protocol="SSL") for one in changed.endpoints)
    with pytest.raises(ConfigError) as caught:
        check_listeners(config, changed)
    assert caught.value.message == (
        "Security protocol cannot be updated for existing listener PLAINTEXT"
    )


@pytest.mark.parametrize("prefix", ["", "listener_name_plaintext_"])
@pytest.mark.parametrize("limit", ["max.connections", "max.connection.creation.rate"])
def test_no_limit_lets_nobody_in(config: BrokerConfig, prefix: str, limit: str) -> None:
    name = prefix + limit.replace(".", "_")
    assert refusal(config, **{name: "0"}) == f"Invalid {limit} 0"
    update(config, **{name: "1"})


def test_a_limit_of_the_file_that_lets_nobody_in_may_stay() -> None:
    config = BrokerConfig.load({"max.connections": "0"})
    update(config, log_retention_ms="5")
    update(config, max_connections="5")
