"""Rules that tie several settings together, and requests that must not be ignored in silence.

Some settings ask for protection or for behaviour that is not served. Accepting them without effect
would leave a broker open, or a person wrong about what holds, so the most serious ones stop the
start and the others warn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moldau.config.option import AnyOption, ConfigError, Option
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group_coordinator import CONSUMER_ASSIGNORS
from moldau.config.options.listeners import PLAINTEXT
from moldau.config.options.topic import TopicOptions

if TYPE_CHECKING:
    from moldau.config.values.broker import BrokerConfig

_ORDERED: tuple[tuple[Option[int], Option[int], str], ...] = (
    (
        BrokerOptions.replica_fetch_wait_max_ms,
        BrokerOptions.replica_socket_timeout_ms,
        "or idle followers would time out",
    ),
    (
        BrokerOptions.replica_fetch_wait_max_ms,
        BrokerOptions.replica_lag_time_max_ms,
        "or idle followers would seem to lag",
    ),
    (
        BrokerOptions.group_min_session_timeout_ms,
        BrokerOptions.group_max_session_timeout_ms,
        "or no session timeout would be allowed",
    ),
    (
        BrokerOptions.group_consumer_min_session_timeout_ms,
        BrokerOptions.group_consumer_session_timeout_ms,
        "which it bounds",
    ),
    (
        BrokerOptions.group_consumer_session_timeout_ms,
        BrokerOptions.group_consumer_max_session_timeout_ms,
        "which bounds it",
    ),
    (
        BrokerOptions.group_consumer_min_heartbeat_interval_ms,
        BrokerOptions.group_consumer_heartbeat_interval_ms,
        "which it bounds",
    ),
    (
        BrokerOptions.group_consumer_heartbeat_interval_ms,
        BrokerOptions.group_consumer_max_heartbeat_interval_ms,
        "which bounds it",
    ),
    (
        BrokerOptions.log_cleaner_min_compaction_lag_ms,
        BrokerOptions.log_cleaner_max_compaction_lag_ms,
        "or records could never be compacted",
    ),
)
"""Pairs of which the first may not exceed the second."""
_HOST_AND_PORT: Final = re.compile(r"(?:\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")


def check_broker(config: BrokerConfig) -> None:
    """Raise ``ConfigError`` for settings that cannot hold together or must not be ignored."""
    _refuse_what_is_not_served(config)
    _check_listeners(config)
    _check_ensemble(config)
    _check_log(config)
    _check_network(config)
    for low, high, why in _ORDERED:
        if config.value(low) > config.value(high):
            raise ConfigError(
                f"{low.name}={config.value(low)} must not exceed "
                f"{high.name}={config.value(high)}, {why}"
            )


def _refuse_what_is_not_served(config: BrokerConfig) -> None:
    if config.process_roles == ("controller",):
        raise ConfigError(
            "process.roles=controller asks for a node that is only a controller; every Moldau node "
            "is a broker too: write process.roles=broker,controller"
        )
    authorizer = config.authorizer_class_name
    if authorizer:
        raise ConfigError(
            f"authorizer.class.name={authorizer} asks for access control, which is not served yet; "
            "remove it to run a broker that is open to everyone who can reach it"
        )
    if config.remote_log_storage_system_enable:
        raise ConfigError(
            "remote.log.storage.system.enable=true asks for tiered storage, which is not served; "
            "remove it to keep all data on local disks"
        )
    for name in config.group_consumer_assignors or ("",):
        if name not in CONSUMER_ASSIGNORS:
            raise ConfigError(
                f"group.consumer.assignors={name} asks for an assignor that is not there; there "
                f"are: {', '.join(BrokerOptions.group_consumer_assignors.default)}"
            )
    if config.config_providers:
        for name, text in config.static.items():
            if "${" in text:
                raise ConfigError(
                    f"{name} holds a ${{...}} placeholder for config.providers, which are not "
                    "served; write the value itself"
                )


def _check_listeners(config: BrokerConfig) -> None:
    if not config.endpoints:
        raise ConfigError("listeners must name at least one listener that is not a controller's")
    for endpoint in config.endpoints:
        if endpoint.protocol != PLAINTEXT:
            raise ConfigError(
                f"The listener {endpoint} asks for {endpoint.protocol}, which is not served yet; "
                "only PLAINTEXT listeners can be opened"
            )
    name_option = BrokerOptions.inter_broker_listener_name
    protocol_option = BrokerOptions.security_inter_broker_protocol
    if config.inter_broker_listener_name is not None and config.is_set(protocol_option):
        raise ConfigError(f"Set {name_option.name} or {protocol_option.name}, not both")
    if config.cluster_secret is not None and config.cluster_secret_file is not None:
        raise ConfigError("Set cluster.secret or cluster.secret.file, not both")
    advertised = [endpoint.name for endpoint in config.advertised_endpoints]
    if config.inter_broker_listener not in advertised:
        raise ConfigError(
            f"Brokers reach each other through the listener {config.inter_broker_listener}, "
            f"which is not advertised; set {name_option.name} to one of: {', '.join(advertised)}"
        )


def _check_ensemble(config: BrokerConfig) -> None:
    connect = config.zookeeper_connect
    if not connect:
        return
    hosts, _, chroot = connect.partition("/")
    for address in map(str.strip, hosts.split(",")):
        found = _HOST_AND_PORT.fullmatch(address)
        if found is None or not 0 < int(found["port"] or 1) <= 65535:
            raise ConfigError(
                f"zookeeper.connect={connect}: {address!r} is not of the form host:port; a path "
                "begins with a slash, behind the last of them"
            )
    if "//" in f"/{chroot}":
        raise ConfigError(f"zookeeper.connect={connect}: '/{chroot}' is no path of ZooKeeper")


def _check_log(config: BrokerConfig) -> None:
    if not config.log_directories:
        raise ConfigError("log.dirs must name at least one directory")
    _check_cordoned(config)
    for option in (TopicOptions.segment_ms, TopicOptions.segment_jitter_ms, TopicOptions.flush_ms):
        _check_topic_default(config, option)
    if config.topic_value(TopicOptions.retention_ms) == 0:
        raise ConfigError(
            "log.retention.ms=0 would delete everything; it must be at least 1, or -1 for no limit"
        )
    threads = config.log_cleaner_threads
    buffer = config.log_cleaner_dedupe_buffer_size
    if threads < 1 or buffer / threads <= 1024 * 1024:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size={buffer} must be more than 1 MiB for each of "
            f"log.cleaner.threads={threads}, of which there must be at least 1"
        )


def _check_cordoned(config: BrokerConfig) -> None:
    cordoned = config.cordoned_log_dirs
    if "*" in cordoned:
        if len(cordoned) > 1:
            raise ConfigError("cordoned.log.dirs=* stands for all directories: name no others")
        return
    missing = [name for name in cordoned if name not in config.log_directories]
    if missing:
        raise ConfigError(
            "cordoned.log.dirs may only name what log.dirs or log.dir does; missing there: "
            f"{', '.join(missing)}"
        )


def _check_topic_default(config: BrokerConfig, option: AnyOption) -> None:
    """The broker's options in hours and minutes have no limit that is right in milliseconds."""
    value = config.topic_value(option)
    reason = None if option.allowed is None else option.allowed.reason(value)
    if reason is not None:
        names = " or ".join(synonym.option.name for synonym in option.synonyms)
        raise ConfigError(f"{names} gives {value} ms: {reason}")


def _check_network(config: BrokerConfig) -> None:
    queued = config.queued_max_request_bytes
    request = config.socket_request_max_bytes
    if 0 < queued < request:
        raise ConfigError(
            f"queued.max.request.bytes={queued} must be -1, or at least "
            f"socket.request.max.bytes={request}"
        )
    overrides = config.max_connections_by_ip()
    if config.max_connections_per_ip == 0 and not overrides:
        raise ConfigError(
            "max.connections.per.ip=0 lets nobody in; set max.connections.per.ip.overrides with it"
        )
    if config.zookeeper_set_acl and not config.zookeeper_digest_credentials:
        raise ConfigError(
            "zookeeper.set.acl=true needs zookeeper.digest.credentials: nobody could read the nodes"
        )
    if ":" not in (config.zookeeper_digest_credentials or ":"):
        raise ConfigError("zookeeper.digest.credentials is not of the form user:password")
    idle = config.connections_max_idle_ms
    delay = config.connection_failed_authentication_delay_ms
    if 0 <= idle <= delay:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms={delay} must be less than "
            f"connections.max.idle.ms={idle}, or the answer would come too late"
        )


def doubts(config: BrokerConfig) -> Iterator[str]:
    """Warnings about settings that promise more than this release does."""
    voters = config.controller_quorum_voters
    others = [voter for voter in voters if voter.partition("@")[0] != str(config.node_id)]
    if others:
        yield (
            f"controller.quorum.voters names other nodes ({', '.join(others)}), which are not "
            "contacted: this node forms a cluster of its own"
        )
    for option in (
        BrokerOptions.create_topic_policy_class_name,
        BrokerOptions.alter_config_policy_class_name,
    ):
        name = config.value(option)
        if name:
            yield f"{option.name}={name} has no effect: Java classes cannot be loaded"
