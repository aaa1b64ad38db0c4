"""The settings that hold on one broker, in layers.

From the strongest: values set at run time for this broker, values set at run time for the whole
cluster, ``server.properties`` with its overrides, and defaults. A ``BrokerConfig`` is immutable;
``with_dynamic`` makes another one when run-time values change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

from moldau.config.describing.entry import ConfigSource
from moldau.config.option import AnyOption, ConfigError, Option, Update
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.listeners import of_listener
from moldau.config.options.network import listener_limit
from moldau.config.options.topic import TopicOptions
from moldau.config.values.checks import check_broker, doubts
from moldau.config.values.endpoints import (
    Endpoint,
    advertised_endpoints,
    metrics_endpoint,
    open_endpoints,
)
from moldau.config.values.server_properties import (
    FilePath,
    ignored_keys,
    read_server_properties,
    unknown_keys,
    with_aliases,
)
from moldau.config.values.topic import TopicConfig

T = TypeVar("T")

REQUEST_MEMORY_PART: Final = 4
"""Of the memory that there is, requests take this fraction at most, unless a setting says more: the
largest part is for what holds records and answers, and for the system's copies of files.
"""

_NOTHING: Mapping[str, str] = MappingProxyType({})


class BrokerConfig(BrokerOptions):
    """Each setting is an attribute: ``config.log_segment_bytes`` is an ``int``."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.explicit: Mapping[str, str] = MappingProxyType(dict(settings))
        """What the user wrote, key by key."""
        self.static: Mapping[str, str] = MappingProxyType(with_aliases(settings))
        """The same, with ``node.id`` and ``broker.id`` standing for each other."""
        self.cluster_dynamic: Mapping[str, str] = _NOTHING
        """Values set at run time for all brokers."""
        self.broker_dynamic: Mapping[str, str] = _NOTHING
        """Values set at run time for this broker."""
        self._set_static()
        self.endpoints: tuple[Endpoint, ...]
        """Where to listen."""
        self.advertised_endpoints: tuple[Endpoint, ...]
        """Where clients are told to connect."""
        self._set_endpoints()
        self.metrics_endpoint: Endpoint | None = metrics_endpoint(self)
        """Where metrics are served, if they are."""
        check_broker(self)
        self.ignored: tuple[str, ...] = ignored_keys(settings)
        """Settings in use that are known elsewhere and have no effect here."""
        self.warnings: tuple[str, ...] = (*unknown_keys(settings), *doubts(self))
        """Sentences for the log: unknown keys, and settings that promise more than they do."""

    @classmethod
    def load(
        cls,
        source: FilePath | Mapping[str, str] | None = None,
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
            settings = read_server_properties(source)
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
                config._set_dynamic(name, text, strict=strict)
        try:
            config._set_endpoints()
            check_broker(config)
        except ConfigError as error:
            if strict:
                raise
            config.warnings += (f"{error}; run-time settings are left out",)
            config._set_static()
            config._set_endpoints()
        return config

    def _set_static(self) -> None:
        """Take the values of the file and the defaults."""
        values = vars(self)
        values.update((option.attribute, option.default) for option in self.table.values())
        self._of_listeners: dict[str, Any] = {}
        for name, text in self.static.items():  # in this order, so that the first error is told
            self._set(name, text)

    def _set(self, name: str, text: str) -> None:
        option = self.table.get(name)
        if option is not None:
            vars(self)[option.attribute] = option.parse(text)
        elif (limit := listener_limit(name)) is not None:
            self._of_listeners[name] = limit.parse(text)

    def _set_endpoints(self) -> None:
        self.endpoints = open_endpoints(self)
        self.advertised_endpoints = advertised_endpoints(self, self.endpoints)

    def _set_dynamic(self, name: str, text: str, *, strict: bool) -> None:
        option = self.table.get(name)
        if option is not None and option.update is Update.READ_ONLY:
            return
        try:
            self._set(name, text)
        except ConfigError as error:
            if strict:
                raise
            self.warnings += (f"{error}; the value set at run time is left out",)

    def __repr__(self) -> str:
        return f"BrokerConfig(node {self.node_id}, {len(self.explicit)} settings)"

    def value(self, option: Option[T]) -> T:
        """What holds for an option, for code that goes through many of them."""
        value: T = vars(self)[option.attribute]
        return value

    def listener_value(self, listener: str, option: Option[T]) -> T:
        """What holds for one listener: its own value, or else the broker's."""
        value: T = self._of_listeners.get(of_listener(listener, option.name), self.value(option))
        return value

    def is_set(self, option: AnyOption) -> bool:
        """Returns whether anybody set the option, rather than leaving its default."""
        return next(self.settings_of(option.name), None) is not None

    def settings_of(self, name: str) -> Iterator[tuple[str, ConfigSource]]:
        """The texts that were set for this key and where, the winning one first."""
        text = self.broker_dynamic.get(name)
        if text is not None:
            yield text, ConfigSource.BROKER
        text = self.cluster_dynamic.get(name)
        if text is not None:
            yield text, ConfigSource.CLUSTER_DEFAULT
        text = self.static.get(name)
        if text is not None:
            yield text, ConfigSource.SERVER_PROPERTIES

    @property
    def log_directories(self) -> tuple[str, ...]:
        """Data directories: ``log.dirs``, or else ``log.dir``."""
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def cordoned_log_directories(self) -> tuple[str, ...]:
        """Those of ``log_directories`` that get no new partitions."""
        cordoned = self.cordoned_log_dirs
        return self.log_directories if cordoned == ("*",) else cordoned

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener through which other brokers reach this one."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether groups may use the consumer protocol (KIP-848)."""
        return "consumer" in self.group_coordinator_rebalance_protocols

    def request_memory(self, machine_memory: int) -> int:
        """Returns how many bytes requests may take before they are executed, on a machine with so
        much memory: ``queued.max.request.bytes``.
        """
        size = self.queued_max_request_bytes
        return size if size > 0 else machine_memory // REQUEST_MEMORY_PART

    def max_connections_by_ip(self) -> dict[str, int]:
        """``max.connections.per.ip.overrides``: limits for single addresses."""
        limits: dict[str, int] = {}
        text = self.max_connections_per_ip_overrides
        for pair in filter(None, (part.strip() for part in text.split(","))):
            host, _, count = pair.rpartition(":")
            if not (host and count.isascii() and count.isdigit()):
                raise BrokerOptions.max_connections_per_ip_overrides.refusal(
                    text, "must be host:count pairs between commas"
                )
            limits[host.strip("[]")] = int(count)
        return limits

    def topic_value(self, option: AnyOption) -> Any:
        """What this broker's settings say for a topic setting that the topic leaves open."""
        for synonym in option.synonyms:
            value = self.value(synonym.option)
            if value is not None:
                return value if synonym.factor == 1 else value * synonym.factor
        return option.default

    @cached_property
    def topic_defaults(self) -> TopicConfig:
        """What holds for a topic without settings of its own."""
        values = {
            option.attribute: self.topic_value(option)
            for option in TopicOptions.table.values()
            if option.attribute in TopicConfig.__slots__
        }
        values["cleanup_policy"] = frozenset(values["cleanup_policy"])
        values["retention_ms"] = max(values["retention_ms"], -1)
        return TopicConfig(**values)
