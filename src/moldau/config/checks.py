"""Rules that tie several settings together, and requests that must not be ignored in silence.

Some settings ask for protection or for behaviour that is not served. Accepting them without effect
would leave a broker open, or a person wrong about what holds, so the most serious ones stop the
start and the others warn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moldau.config import (
    group_options,
    log_options,
    network_options,
    replication_options,
    server_options,
)
from moldau.config.listeners import PLAINTEXT
from moldau.config.option import ConfigError, Option
from moldau.config.topic_options import TOPIC_SYNONYMS

if TYPE_CHECKING:
    from moldau.config.broker import BrokerConfig

_ORDERED: tuple[tuple[Option[int], Option[int], str], ...] = (
    (
        replication_options.REPLICA_FETCH_WAIT_MAX_MS,
        replication_options.REPLICA_SOCKET_TIMEOUT_MS,
        "or idle followers would time out",
    ),
    (
        replication_options.REPLICA_FETCH_WAIT_MAX_MS,
        replication_options.REPLICA_LAG_TIME_MAX_MS,
        "or idle followers would seem to lag",
    ),
    (
        group_options.GROUP_MIN_SESSION_TIMEOUT_MS,
        group_options.GROUP_MAX_SESSION_TIMEOUT_MS,
        "or no session timeout would be allowed",
    ),
    (
        group_options.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        group_options.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        "which it bounds",
    ),
    (
        group_options.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        group_options.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
        "which bounds it",
    ),
    (
        group_options.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        group_options.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        "which it bounds",
    ),
    (
        group_options.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        group_options.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
        "which bounds it",
    ),
    (
        log_options.LOG_CLEANER_MIN_COMPACTION_LAG_MS,
        log_options.LOG_CLEANER_MAX_COMPACTION_LAG_MS,
        "or records could never be compacted",
    ),
)
"""Pairs of which the first may not exceed the second."""


def check_broker(config: BrokerConfig) -> None:
    """Raise ``ConfigError`` for settings that cannot hold together or must not be ignored."""
    _refuse_what_is_not_served(config)
    _check_listeners(config)
    _check_log(config)
    _check_network(config)
    for low, high, why in _ORDERED:
        if config[low] > config[high]:
            raise ConfigError(
                f"{low.name}={config[low]} must not exceed {high.name}={config[high]}, {why}"
            )


def _refuse_what_is_not_served(config: BrokerConfig) -> None:
    if config[server_options.PROCESS_ROLES] == ("controller",):
        raise ConfigError(
            "process.roles=controller asks for a node that is only a controller; every Moldau node "
            "is a broker too: write process.roles=broker,controller"
        )
    authorizer = config[server_options.AUTHORIZER_CLASS_NAME]
    if authorizer:
        raise ConfigError(
            f"authorizer.class.name={authorizer} asks for access control, which is not served yet; "
            "remove it to run a broker that is open to everyone who can reach it"
        )
    if config[server_options.REMOTE_LOG_STORAGE_SYSTEM_ENABLE]:
        raise ConfigError(
            "remote.log.storage.system.enable=true asks for tiered storage, which is not served; "
            "remove it to keep all data on local disks"
        )
    if config[server_options.CONFIG_PROVIDERS]:
        for name, text in config.static.items():
            if "${" in text:
                raise ConfigError(
                    f"{name} holds a ${{...}} placeholder for config.providers, which are not "
                    "served; write the value itself"
                )


def _check_listeners(config: BrokerConfig) -> None:
    listeners = config.listeners()
    if not listeners:
        raise ConfigError("listeners must name at least one listener that is not a controller's")
    for endpoint in listeners:
        if endpoint.protocol != PLAINTEXT:
            raise ConfigError(
                f"The listener {endpoint} asks for {endpoint.protocol}, which is not served yet; "
                "only PLAINTEXT listeners can be opened"
            )
    name_option = server_options.INTER_BROKER_LISTENER_NAME
    protocol_option = server_options.SECURITY_INTER_BROKER_PROTOCOL
    if config[name_option] is not None and config.is_set(protocol_option):
        raise ConfigError(f"Set {name_option.name} or {protocol_option.name}, not both")
    advertised = [endpoint.name for endpoint in config.advertised()]
    if config.inter_broker_listener_name not in advertised:
        raise ConfigError(
            f"Brokers reach each other through the listener {config.inter_broker_listener_name}, "
            f"which is not advertised; set {name_option.name} to one of: {', '.join(advertised)}"
        )


def _check_log(config: BrokerConfig) -> None:
    directories = config.log_dirs
    if not directories:
        raise ConfigError("log.dirs must name at least one directory")
    _check_cordoned(config)
    for name, low in (("segment.ms", 1), ("segment.jitter.ms", 0), ("flush.ms", 0)):
        _at_least(config, name, low)
    if config.topic_value("retention.ms") == 0:
        raise ConfigError(
            "log.retention.ms=0 would delete everything; it must be at least 1, or -1 for no limit"
        )
    threads = config[log_options.LOG_CLEANER_THREADS]
    buffer = config[log_options.LOG_CLEANER_DEDUPE_BUFFER_SIZE]
    if threads < 1 or buffer / threads <= 1024 * 1024:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size={buffer} must be more than 1 MiB for each of "
            f"log.cleaner.threads={threads}, of which there must be at least 1"
        )


def _check_cordoned(config: BrokerConfig) -> None:
    cordoned = config[log_options.CORDONED_LOG_DIRS]
    if "*" in cordoned:
        if len(cordoned) > 1:
            raise ConfigError("cordoned.log.dirs=* stands for all directories: name no others")
        return
    missing = [name for name in cordoned if name not in config.log_dirs]
    if missing:
        raise ConfigError(
            "cordoned.log.dirs may only name what log.dirs or log.dir does; missing there: "
            f"{', '.join(missing)}"
        )


def _at_least(config: BrokerConfig, topic_setting: str, low: int) -> None:
    value: Any = config.topic_value(topic_setting)
    if value < low:
        names = " or ".join(synonym.option.name for synonym in TOPIC_SYNONYMS[topic_setting])
        raise ConfigError(f"{names} gives {value} ms; it must be at least {low}")


def _check_network(config: BrokerConfig) -> None:
    config.metrics_listener()
    queued = config[network_options.QUEUED_MAX_REQUEST_BYTES]
    request = config[network_options.SOCKET_REQUEST_MAX_BYTES]
    if 0 < queued < request:
        raise ConfigError(
            f"queued.max.request.bytes={queued} must be -1, or at least "
            f"socket.request.max.bytes={request}"
        )
    overrides = config.max_connections_per_ip_overrides()
    if config[network_options.MAX_CONNECTIONS_PER_IP] == 0 and not overrides:
        raise ConfigError(
            "max.connections.per.ip=0 lets nobody in; set max.connections.per.ip.overrides with it"
        )
    idle = config[network_options.CONNECTIONS_MAX_IDLE_MS]
    delay = config[network_options.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS]
    if 0 <= idle <= delay:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms={delay} must be less than "
            f"connections.max.idle.ms={idle}, or the answer would come too late"
        )


def doubts(config: BrokerConfig) -> Iterator[str]:
    """Warnings about settings that promise more than this release does."""
    connect = config[server_options.ZOOKEEPER_CONNECT]
    if connect:
        yield (
            f"zookeeper.connect={connect} is not contacted: this node keeps its own coordination "
            "data and forms a cluster of its own"
        )
    voters = config[server_options.CONTROLLER_QUORUM_VOTERS]
    others = [voter for voter in voters if voter.partition("@")[0] != str(config.node_id)]
    if others:
        yield (
            f"controller.quorum.voters names other nodes ({', '.join(others)}), which are not "
            "contacted: this node forms a cluster of its own"
        )
    for option in (
        server_options.CREATE_TOPIC_POLICY_CLASS_NAME,
        server_options.ALTER_CONFIG_POLICY_CLASS_NAME,
    ):
        if config[option]:
            yield f"{option.name}={config[option]} has no effect: Java classes cannot be loaded"
