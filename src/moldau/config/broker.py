"""The settings that hold on one broker, in layers.

From the strongest: values set at run time for this broker, values set at run time for the whole
cluster, ``server.properties`` with its overrides, and defaults. A ``BrokerConfig`` is immutable;
``with_dynamic`` makes another one when run-time values change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from moldau.config import log_options, network_options, server_options
from moldau.config.checks import check_broker, doubts
from moldau.config.ignored import REPLACED, is_ignored
from moldau.config.listeners import Endpoint, check_ports, parse_listeners, parse_protocol_map
from moldau.config.option import AnyOption, ConfigError, ConfigSource, Option, Update
from moldau.config.properties import decode_properties, parse_properties
from moldau.config.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from moldau.config.topic_options import TOPIC_SYNONYMS
from moldau.config.topic_values import TopicConfig

T = TypeVar("T")

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Setting(NamedTuple):
    """A text that somebody gave for a setting, and who."""

    text: str
    source: ConfigSource


class BrokerConfig:
    """Typed access to settings: ``config[LOG_SEGMENT_BYTES]`` is an ``int``."""

    __slots__ = (
        "_listeners",
        "_topic_defaults",
        "_values",
        "broker_dynamic",
        "cluster_dynamic",
        "explicit",
        "ignored",
        "static",
        "warnings",
    )

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.explicit: Mapping[str, str] = MappingProxyType(dict(settings))
        """What the user wrote, key by key."""
        self.static: Mapping[str, str] = MappingProxyType(_with_aliases(settings))
        """The same, with ``node.id`` and ``broker.id`` standing for each other."""
        self.cluster_dynamic: Mapping[str, str] = _NOTHING
        """Values set at run time for all brokers."""
        self.broker_dynamic: Mapping[str, str] = _NOTHING
        """Values set at run time for this broker."""
        self._topic_defaults: TopicConfig | None = None
        self._values: dict[str, Any] = {
            name: option.default for name, option in BROKER_OPTIONS.items()
        }
        for name, text in self.static.items():
            option = BROKER_OPTIONS.get(name)
            if option is not None:
                self._values[name] = option.parse(text)
        self._listeners = _endpoints(self)
        check_broker(self)
        self.ignored: tuple[str, ...] = tuple(
            name for name in settings if name not in BROKER_OPTIONS and is_ignored(name)
        )
        """Settings in use that are known elsewhere and have no effect here."""
        self.warnings: tuple[str, ...] = (*_unknown_keys(settings), *doubts(self))
        """Sentences for the log: unknown keys, and settings that promise more than they do."""

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str] | Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> BrokerConfig:
        """Settings from a ``server.properties`` file or a mapping, with overrides on top.

        A value that cannot be accepted raises ``ConfigError`` with one sentence for the user.
        """
        if source is None:
            settings: dict[str, str] = {}
        elif isinstance(source, Mapping):
            settings = dict(source)
        else:
            settings = _read(Path(source))
        settings.update(overrides or {})
        return cls(settings)

    def with_dynamic(
        self, cluster: Mapping[str, str], broker: Mapping[str, str], *, strict: bool = False
    ) -> BrokerConfig:
        """The same settings with run-time values on top.

        A stored value that does not hold (any more) must not keep a broker from starting: it
        becomes a warning, unless ``strict`` asks for a ``ConfigError``.
        """
        config = BrokerConfig(self.explicit)
        config.cluster_dynamic = MappingProxyType(dict(cluster))
        config.broker_dynamic = MappingProxyType(dict(broker))
        for layer in (cluster, broker):
            for name, text in layer.items():
                config._apply(name, text, strict=strict)
        try:
            check_broker(config)
        except ConfigError as error:
            if strict:
                raise
            config.warnings += (f"{error}; run-time settings are left out",)
            config._values = BrokerConfig(self.explicit)._values
        return config

    def _apply(self, name: str, text: str, *, strict: bool) -> None:
        option = BROKER_OPTIONS.get(name)
        if option is None or option.update is Update.READ_ONLY:
            return
        try:
            self._values[name] = option.parse(text)
        except ConfigError as error:
            if strict:
                raise
            self.warnings += (f"{error}; the value set at run time is left out",)

    def __getitem__(self, option: Option[T]) -> T:
        value: T = self._values[option.name]
        return value

    def __repr__(self) -> str:
        return f"BrokerConfig(node {self.node_id}, {len(self.explicit)} settings)"

    def is_set(self, option: AnyOption) -> bool:
        """Whether anybody set the option, rather than leaving its default."""
        return next(self.settings_of(option.name), None) is not None

    def settings_of(self, name: str) -> Iterator[Setting]:
        """Who set what for this key, the winning one first."""
        text = self.broker_dynamic.get(name)
        if text is not None:
            yield Setting(text, ConfigSource.DYNAMIC_BROKER_CONFIG)
        text = self.cluster_dynamic.get(name)
        if text is not None:
            yield Setting(text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        text = self.static.get(name)
        if text is not None:
            yield Setting(text, ConfigSource.STATIC_BROKER_CONFIG)

    @property
    def node_id(self) -> int:
        return self[server_options.NODE_ID]

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Data directories: ``log.dirs``, or else ``log.dir``."""
        directories = self[log_options.LOG_DIRS]
        return self[log_options.LOG_DIR] if directories is None else directories

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """Those of ``log_dirs`` that get no new partitions."""
        cordoned = self[log_options.CORDONED_LOG_DIRS]
        return self.log_dirs if cordoned == ("*",) else cordoned

    def listeners(self) -> tuple[Endpoint, ...]:
        """Endpoints to open, without a KRaft controller's. An empty host is every interface."""
        return self._listeners[0]

    def advertised(self) -> tuple[Endpoint, ...]:
        """Endpoints to tell clients, in the order of ``listeners``.

        An empty host stands for one that only the running machine can know (the listener is on
        every interface): the broker replaces it by the host name if that resolves, else by the
        machine's address, else by 127.0.0.1. Port 0 stands for the port that the listener got.
        """
        return self._listeners[1]

    def metrics_listener(self) -> Endpoint | None:
        """Where metrics are served, if they are."""
        option = server_options.METRICS_LISTENER
        value = self[option]
        if not value:
            return None
        return parse_listeners([value], {"HTTP": "PLAINTEXT"}, option.name)[0]

    @property
    def inter_broker_listener_name(self) -> str:
        name = self[server_options.INTER_BROKER_LISTENER_NAME]
        return (name or self[server_options.SECURITY_INTER_BROKER_PROTOCOL]).upper()

    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        """Limits for single addresses."""
        limits: dict[str, int] = {}
        option = network_options.MAX_CONNECTIONS_PER_IP_OVERRIDES
        for pair in filter(None, (part.strip() for part in self[option].split(","))):
            host, _, count = pair.rpartition(":")
            if not (host and count.isascii() and count.isdigit()):
                raise option.refusal(self[option], "must be host:count pairs between commas")
            limits[host.strip("[]")] = int(count)
        return limits

    def topic_value(self, name: str) -> Any:
        """What this broker's settings say for a topic setting that the topic leaves open."""
        for option, factor in TOPIC_SYNONYMS.get(name, ()):
            value = self._values[option.name]
            if value is not None:
                return value if factor == 1 else value * factor
        return TOPIC_OPTIONS[name].default

    @property
    def topic_defaults(self) -> TopicConfig:
        """What holds for a topic without settings of its own."""
        if self._topic_defaults is None:
            values = {
                name: self.topic_value(name.replace("_", ".")) for name in TopicConfig.__slots__
            }
            values["cleanup_policy"] = frozenset(values["cleanup_policy"])
            values["retention_ms"] = max(values["retention_ms"], -1)
            self._topic_defaults = TopicConfig(**values)
        return self._topic_defaults


def _read(path: Path) -> dict[str, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror or error}") from None
    return parse_properties(decode_properties(data))


def _with_aliases(settings: Mapping[str, str]) -> dict[str, str]:
    """``node.id`` and ``broker.id`` name the same thing; -1 for the latter means "not set"."""
    static = dict(settings)
    node, broker = static.get("node.id"), static.get("broker.id")
    if broker is not None and broker.strip() == "-1":
        del static["broker.id"]
        broker = None
    if node is None and broker is not None:
        static["node.id"] = broker
    elif broker is None and node is not None:
        static["broker.id"] = node
    elif node is not None and broker is not None and node.strip() != broker.strip():
        raise ConfigError(
            f"node.id={node} and broker.id={broker} are two names of one setting and must agree"
        )
    return static


def _endpoints(config: BrokerConfig) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    """Endpoints to open and endpoints to advertise."""
    map_option = server_options.LISTENER_SECURITY_PROTOCOL_MAP
    protocols = parse_protocol_map(config[map_option], map_option.name)
    controllers = {name.upper() for name in config[server_options.CONTROLLER_LISTENER_NAMES]}
    for name in controllers:
        protocols.setdefault(name, "PLAINTEXT")
    every = parse_listeners(config[server_options.LISTENERS], protocols, "listeners")
    check_ports(every, "listeners")
    opened = tuple(endpoint for endpoint in every if endpoint.name not in controllers)
    told = config[server_options.ADVERTISED_LISTENERS]
    if told is None:
        return opened, tuple(
            endpoint._replace(host="") if endpoint.wildcard else endpoint for endpoint in opened
        )
    by_name = {
        endpoint.name: endpoint
        for endpoint in parse_listeners(told, protocols, "advertised.listeners")
        if endpoint.name not in controllers
    }
    for endpoint in by_name.values():
        if endpoint.wildcard:
            raise ConfigError(
                f"Invalid value {endpoint} for configuration advertised.listeners: clients cannot "
                "connect to every interface at once; name a host"
            )
        if endpoint.name not in {listener.name for listener in opened}:
            raise ConfigError(
                f"Invalid value {endpoint} for configuration advertised.listeners: "
                f"listeners has no listener named {endpoint.name}"
            )
    advertised = (by_name.get(endpoint.name) for endpoint in opened)
    return opened, tuple(endpoint for endpoint in advertised if endpoint is not None)


def _unknown_keys(settings: Mapping[str, str]) -> Iterator[str]:
    for name in settings:
        if name in BROKER_OPTIONS or is_ignored(name):
            continue
        if name in REPLACED:
            yield f"The old setting {name} is ignored; {REPLACED[name]}"
            continue
        guess = _nearest(name)
        hint = f"; did you mean {guess}?" if guess else ""
        yield f"The unknown setting {name} is ignored{hint}"


def _nearest(name: str) -> str | None:
    if name in TOPIC_SYNONYMS:  # a topic's setting where the broker's belongs
        return TOPIC_SYNONYMS[name][0].option.name
    from difflib import get_close_matches  # rarely needed, and start-up time counts

    matches = get_close_matches(name, BROKER_OPTIONS, n=1, cutoff=0.8)
    return matches[0] if matches else None
