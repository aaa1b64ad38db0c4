"""Where the broker listens and what it tells clients."""

from __future__ import annotations

import pytest

from moldau.config.option import ConfigError
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.endpoints import Endpoint


def load(**settings: str) -> BrokerConfig:
    return BrokerConfig.load({key.replace("_", "."): value for key, value in settings.items()})


def test_without_configuration_it_listens_on_every_interface() -> None:
    config = load()

    assert config.endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.inter_broker_listener == "PLAINTEXT"


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://localhost:9092", Endpoint("PLAINTEXT", "localhost", 9092)),
        ("PLAINTEXT://:0", Endpoint("PLAINTEXT", "", 0)),
        ("plaintext://127.0.0.1:9092", Endpoint("PLAINTEXT", "127.0.0.1", 9092)),
        ("PLAINTEXT://[::1]:9092", Endpoint("PLAINTEXT", "::1", 9092)),
        ("PLAINTEXT://[fe80::1%eth0]:1", Endpoint("PLAINTEXT", "fe80::1%eth0", 1)),
        ("PLAINTEXT://my-host.example:65535", Endpoint("PLAINTEXT", "my-host.example", 65535)),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, endpoint: Endpoint) -> None:
    config = load(listeners=text)

    assert config.endpoints == (endpoint,)
    assert BrokerConfig.load({"listeners": str(endpoint)}).endpoints == (endpoint,)


@pytest.mark.parametrize(
    "text",
    [
        "localhost:9092",
        "PLAINTEXT://localhost",
        "PLAINTEXT://localhost:",
        "PLAINTEXT://localhost:kafka",
        "PLAINTEXT://localhost:65536",
        "PLAINTEXT://localhost:-1",
        "PLAINTEXT://::1:9092",
        "PLAINTEXT://host/path:9092",
        "://localhost:9092",
        "PLAINTEXT:/localhost:9092",
    ],
)
def test_anything_else_is_refused_with_the_form_that_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(listeners=text)

    assert f"Invalid value {text} for configuration listeners" in str(caught.value)
    assert "NAME://host:port" in str(caught.value)


def test_listeners_can_have_names_of_their_own() -> None:
    config = BrokerConfig.load(
        {
            "listeners": "INSIDE://:9092, outside://0.0.0.0:9094",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT, Outside:plaintext",
            "inter.broker.listener.name": "inside",
            "advertised.listeners": "OUTSIDE://kafka.example:19094,INSIDE://10.0.0.1:9092",
        }
    )

    assert config.endpoints == (
        Endpoint("INSIDE", "", 9092),
        Endpoint("OUTSIDE", "0.0.0.0", 9094),
    )
    assert config.advertised_endpoints == (
        Endpoint("INSIDE", "10.0.0.1", 9092),
        Endpoint("OUTSIDE", "kafka.example", 19094),
    )
    assert config.inter_broker_listener == "INSIDE"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_a_listener_on_every_interface_leaves_its_advertised_host_open(host: str) -> None:
    config = load(listeners=f"PLAINTEXT://{host}:9092")

    assert config.endpoints[0].wildcard
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "", 9092),)


def test_a_listener_on_one_host_advertises_it() -> None:
    assert load(listeners="PLAINTEXT://10.1.2.3:9092").advertised_endpoints[0].host == "10.1.2.3"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_every_interface_cannot_be_advertised(host: str) -> None:
    with pytest.raises(ConfigError, match=r"advertised.listeners: .* name a host"):
        load(advertised_listeners=f"PLAINTEXT://{host}:9092")


def test_only_listeners_that_exist_can_be_advertised() -> None:
    settings = {
        "advertised.listeners": "PLAINTEXT://a:1,EXTRA://a:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
    }
    with pytest.raises(ConfigError, match="listeners has no listener named EXTRA"):
        BrokerConfig.load(settings)


def test_advertised_listeners_may_share_a_port() -> None:
    config = BrokerConfig.load(
        {
            "listeners": "PLAINTEXT://:9092,EXTRA://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://a:9092,EXTRA://b:9092",
        }
    )
    assert [endpoint.port for endpoint in config.advertised_endpoints] == [9092, 9092]


def test_two_listeners_cannot_have_one_name() -> None:
    with pytest.raises(ConfigError, match="PLAINTEXT appears twice"):
        load(listeners="PLAINTEXT://:9092,plaintext://:9093")


TWO = {
    "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    "inter.broker.listener.name": "A",
}


@pytest.mark.parametrize("listeners", ["A://:9092,B://:9092", "A://1.2.3.4:1,B://1.2.3.5:1"])
def test_two_listeners_cannot_share_a_port(listeners: str) -> None:
    with pytest.raises(ConfigError, match="the listeners A and B share port"):
        BrokerConfig.load({"listeners": listeners, **TWO})


@pytest.mark.parametrize("listeners", ["A://:0,B://:0", "A://127.0.0.1:9092,B://[::1]:9092"])
def test_free_ports_and_two_address_families_are_no_conflict(listeners: str) -> None:
    assert len(BrokerConfig.load({"listeners": listeners, **TWO}).endpoints) == 2


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_that_asks_for_protection_is_refused_not_opened(protocol: str) -> None:
    with pytest.raises(ConfigError, match=f"asks for {protocol}, which is not served yet"):
        load(listeners=f"{protocol}://:9093")
    with pytest.raises(ConfigError, match=f"asks for {protocol}, which is not served yet"):
        BrokerConfig.load(
            {"listeners": "SAFE://:9093", "listener.security.protocol.map": f"SAFE:{protocol}"}
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PLAINTEXT", "not of the form NAME:PROTOCOL"),
        (":PLAINTEXT", "not of the form NAME:PROTOCOL"),
        ("A:HTTP", "'HTTP' is not one of: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ],
)
def test_a_bad_protocol_map_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig.load({"listener.security.protocol.map": text})


def test_a_name_without_a_protocol_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"add EXTRA:PLAINTEXT to listener\.security\.protocol"):
        load(listeners="EXTRA://:9092")


def test_the_inter_broker_listener_must_be_advertised() -> None:
    with pytest.raises(ConfigError, match=r"set inter\.broker\.listener\.name to one of: A, B"):
        BrokerConfig.load(
            {
                "listeners": "A://:1,B://:2",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            }
        )


def test_the_inter_broker_listener_is_named_in_one_way_only() -> None:
    with pytest.raises(ConfigError, match="not both"):
        BrokerConfig.load(
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            }
        )


def test_a_controllers_listener_is_recognised_and_not_opened() -> None:
    config = BrokerConfig.load(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )

    assert config.endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "localhost", 9092),)


def test_a_node_with_nothing_but_controller_listeners_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one listener that is not a controller's"):
        BrokerConfig.load(
            {"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}
        )
