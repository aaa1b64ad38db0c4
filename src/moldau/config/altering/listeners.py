"""What may change of listeners while a broker runs: the rules of Kafka's ``DynamicListenerConfig``
and ``ListenerConnectionQuota``.

That the settings fit together (what is advertised is opened, brokers can reach each other) is
checked whenever they are read: ``config/values``.
"""

from __future__ import annotations

from typing import Final

from moldau.config.option import ConfigError
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.listeners import of_listener
from moldau.config.options.network import LISTENER_LIMITS
from moldau.config.values.broker import BrokerConfig

_LISTENER_SETTINGS: Final = frozenset(
    {
        BrokerOptions.listeners.name,
        BrokerOptions.advertised_listeners.name,
        BrokerOptions.listener_security_protocol_map.name,
    }
)
_CHANGEABLE: Final = frozenset(
    {
        *LISTENER_LIMITS,
        BrokerOptions.num_network_threads.name,
        *(f"ssl.keystore.{part}" for part in ("type", "location", "password", "key")),
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        *(f"ssl.truststore.{part}" for part in ("type", "location", "password", "certificates")),
    }
)
"""What of a listener that is open may change with the listeners."""


def check_listeners(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raise ``ConfigError`` unless listeners may change so."""
    _check_limits(before, after)
    if all(_text(before, name) == _text(after, name) for name in _LISTENER_SETTINGS):
        return
    protocols = {endpoint.name: endpoint.protocol for endpoint in before.endpoints}
    for listener, protocol in ((endpoint.name, endpoint.protocol) for endpoint in after.endpoints):
        if listener not in protocols:
            continue
        if _fixed_settings(before, listener) != _fixed_settings(after, listener):
            raise ConfigError(
                f"Configs cannot be updated dynamically for existing listener {listener}, restart "
                "broker or create a new listener for update"
            )
        if protocol != protocols[listener]:
            raise ConfigError(
                f"Security protocol cannot be updated for existing listener {listener}"
            )


def _check_limits(before: BrokerConfig, after: BrokerConfig) -> None:
    """A broker may be started with a limit that lets nobody in; nobody could change it then."""
    for name, option in LISTENER_LIMITS.items():
        for endpoint in after.endpoints:
            limit = after.listener_value(endpoint.name, option)
            if limit <= 0 and limit != before.listener_value(endpoint.name, option):
                raise ConfigError(f"Invalid {name} {limit}")


def _text(config: BrokerConfig, name: str) -> str | None:
    return next((text for text, _ in config.settings_of(name)), None)


def _fixed_settings(config: BrokerConfig, listener: str) -> dict[str, str | None]:
    """Returns what must stay as it is for one listener."""
    prefix = of_listener(listener, "")
    names = {*config.static, *config.cluster_dynamic, *config.broker_dynamic}
    return {
        name: _text(config, name)
        for name in names
        if name.startswith(prefix) and name.removeprefix(prefix) not in _CHANGEABLE
    }
