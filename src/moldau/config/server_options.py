"""Options of the node itself: who it is, where it listens, how topics come to be, coordination."""

from __future__ import annotations

from typing import Final

from moldau.config.option import Area, Update
from moldau.config.validators import OneOf, SomeOf

IDENTITY: Final = Area(
    "Identity and roles",
    "Who this node is. Files written for ZooKeeper-era brokers (`broker.id`, `zookeeper.connect`) "
    "and for KRaft nodes (`node.id`, `process.roles`) both load.",
)

NODE_ID = IDENTITY.integer(
    "node.id",
    1,
    "The number of this node, unique in the cluster. `broker.id` is its older name; when both are "
    "set they must agree. Apache Kafka has no default here; a single Moldau node is node 1.",
    at_least=0,
)
BROKER_ID = IDENTITY.integer(
    "broker.id",
    -1,
    "The older name of `node.id`. -1 means that it is not set.",
)
BROKER_RACK = IDENTITY.optional_string(
    "broker.rack",
    "The rack or zone in which this broker stands. Replicas of a partition are spread over racks, "
    "and consumers that name their rack may be sent to a replica nearby.",
)
PROCESS_ROLES = IDENTITY.names(
    "process.roles",
    (),
    "The KRaft roles of this process. Every Moldau node is a broker and may become controller, so "
    "`broker` and `broker,controller` both load; a node that is only `controller` is refused.",
    allowed=SomeOf("broker", "controller"),
)
CONTROLLER_LISTENER_NAMES = IDENTITY.names(
    "controller.listener.names",
    (),
    "Names of the listeners that a KRaft controller would use. They are recognised in `listeners` "
    "and not opened, because controller and broker share one process here.",
)
CONTROLLER_QUORUM_VOTERS = IDENTITY.names(
    "controller.quorum.voters",
    (),
    "The KRaft controllers as `id@host:port`. Read so that KRaft files load; Moldau elects its "
    "controller through the coordination store.",
    inert=True,
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = IDENTITY.names(
    "controller.quorum.bootstrap.servers",
    (),
    "Where KRaft controllers can be found. Read so that KRaft files load.",
    inert=True,
)
BROKER_ID_GENERATION_ENABLE = IDENTITY.boolean(
    "broker.id.generation.enable",
    True,
    "Whether a ZooKeeper-era broker without an id may be given one. A Moldau node without an id "
    "is node 1.",
    inert=True,
    listed=False,
)
RESERVED_BROKER_MAX_ID = IDENTITY.integer(
    "reserved.broker.max.id",
    1000,
    "The highest id that could be set by hand on a ZooKeeper-era broker.",
    at_least=0,
    inert=True,
    listed=False,
)

LISTENERS_AREA: Final = Area(
    "Listeners",
    "Where clients connect. Only plain connections are served so far: a listener that asks for "
    "SSL or SASL stops the start with an error, rather than being opened without protection.",
)

LISTENERS = LISTENERS_AREA.names(
    "listeners",
    ("PLAINTEXT://:9092",),
    "Addresses to listen on, as `NAME://host:port`. An empty host means every interface, port 0 "
    "any free port, and an IPv6 address stands in brackets. Names and ports must differ.",
)
ADVERTISED_LISTENERS = LISTENERS_AREA.optional_names(
    "advertised.listeners",
    "The addresses that clients are told to connect to, when they differ from `listeners` (behind "
    "NAT, in a container). Left out, each listener advertises its own host. A listener on every "
    "interface advertises the machine's host name if that resolves, else the machine's address, "
    "else 127.0.0.1: so clients elsewhere get a name that they can look up, and clients on the "
    "same machine always get through without any configuration.",
)
LISTENER_SECURITY_PROTOCOL_MAP = LISTENERS_AREA.string(
    "listener.security.protocol.map",
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "Which protocol a listener name stands for, as `NAME:PROTOCOL` pairs, so that listeners can "
    "have names of your own.",
)
INTER_BROKER_LISTENER_NAME = LISTENERS_AREA.optional_string(
    "inter.broker.listener.name",
    "The listener that other brokers use to reach this one. Left out, it is the listener of "
    "`security.inter.broker.protocol`.",
)
SECURITY_INTER_BROKER_PROTOCOL = LISTENERS_AREA.string(
    "security.inter.broker.protocol",
    "PLAINTEXT",
    "The protocol between brokers when `inter.broker.listener.name` is not set. Set one of the "
    "two, not both.",
    allowed=OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
)
CONTROL_PLANE_LISTENER_NAME = LISTENERS_AREA.optional_string(
    "control.plane.listener.name",
    "A ZooKeeper-era listener for the controller's requests. Such a listener is opened like any "
    "other.",
    inert=True,
    listed=False,
)

TOPICS: Final = Area(
    "Topics",
    "What happens when topics are created and deleted. Defaults for topic settings are in "
    "[Log](#log).",
)

NUM_PARTITIONS = TOPICS.integer(
    "num.partitions",
    1,
    "How many partitions a topic gets when its creator does not say.",
    at_least=1,
)
DEFAULT_REPLICATION_FACTOR = TOPICS.integer(
    "default.replication.factor",
    1,
    "How many replicas a partition gets when its creator does not say.",
)
AUTO_CREATE_TOPICS_ENABLE = TOPICS.boolean(
    "auto.create.topics.enable",
    True,
    "Whether a topic is created when a client asks for its metadata and allows it. Turn it off "
    "where a mistyped topic name should be an error.",
)
DELETE_TOPIC_ENABLE = TOPICS.boolean(
    "delete.topic.enable",
    True,
    "Whether topics can be deleted; otherwise DeleteTopics is refused.",
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = TOPICS.integer(
    "max.request.partition.size.limit",
    2000,
    "How many partitions one DescribeTopicPartitions answer holds at most.",
    at_least=1,
)
CREATE_TOPIC_POLICY_CLASS_NAME = TOPICS.optional_class(
    "create.topic.policy.class.name",
    "A Java class that approves new topics. Java classes cannot be loaded; a value gives a "
    "warning.",
    inert=True,
)
ALTER_CONFIG_POLICY_CLASS_NAME = TOPICS.optional_class(
    "alter.config.policy.class.name",
    "A Java class that approves config changes. Java classes cannot be loaded; a value gives a "
    "warning.",
    inert=True,
)

COORDINATION: Final = Area(
    "Coordination and shutdown",
    "How nodes find each other and leave. Coordination data lives in the node's own data "
    "directory so far; `zookeeper.connect` is read and gives a warning.",
)

ZOOKEEPER_CONNECT = COORDINATION.optional_string(
    "zookeeper.connect",
    "The ZooKeeper ensemble as `host:port` pairs, with an optional path behind them. It is not "
    "contacted: the node keeps its own coordination data.",
    listed=False,
)
ZOOKEEPER_SESSION_TIMEOUT_MS = COORDINATION.integer(
    "zookeeper.session.timeout.ms",
    18_000,
    "How long a node may be silent before its session, and with it its membership, ends.",
    at_least=1,
    listed=False,
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = COORDINATION.optional_integer(
    "zookeeper.connection.timeout.ms",
    "How long to wait for the first connection; the session timeout when not set.",
    listed=False,
)
ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS = COORDINATION.integer(
    "zookeeper.max.in.flight.requests",
    10,
    "How many requests to the ensemble may be unanswered at a time.",
    at_least=1,
    listed=False,
)
BROKER_HEARTBEAT_INTERVAL_MS = COORDINATION.integer(
    "broker.heartbeat.interval.ms",
    2000,
    "How often a KRaft broker tells the controller that it lives.",
    inert=True,
)
BROKER_SESSION_TIMEOUT_MS = COORDINATION.integer(
    "broker.session.timeout.ms",
    9000,
    "How long a KRaft broker may be silent before it counts as gone.",
    inert=True,
)
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = COORDINATION.integer(
    "initial.broker.registration.timeout.ms",
    60_000,
    "How long a KRaft broker tries to register at its start.",
    inert=True,
)
CONTROLLER_SOCKET_TIMEOUT_MS = COORDINATION.integer(
    "controller.socket.timeout.ms",
    30_000,
    "How long the controller waits for a broker's answer on the network.",
)
CONTROLLED_SHUTDOWN_ENABLE = COORDINATION.boolean(
    "controlled.shutdown.enable",
    True,
    "Whether a broker hands its leaderships over before it stops.",
)
CONTROLLED_SHUTDOWN_MAX_RETRIES = COORDINATION.integer(
    "controlled.shutdown.max.retries",
    3,
    "How often handing over is tried before the broker stops anyway.",
    listed=False,
)
CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS = COORDINATION.long(
    "controlled.shutdown.retry.backoff.ms",
    5000,
    "The pause between two tries of handing over.",
    listed=False,
)
REQUEST_TIMEOUT_MS = COORDINATION.integer(
    "request.timeout.ms",
    30_000,
    "How long a request to another node may take before it fails.",
)

GENERAL: Final = Area("Other", "Settings that stand alone.")

AUTHORIZER_CLASS_NAME = GENERAL.string(
    "authorizer.class.name",
    "",
    "The class that decides who may do what. Access control is not served yet, so any value here "
    "stops the start rather than leaving the broker open without a word.",
)
REMOTE_LOG_STORAGE_SYSTEM_ENABLE = GENERAL.boolean(
    "remote.log.storage.system.enable",
    False,
    "Whether tiered storage is on. Moldau keeps logs on local disks only: `true` stops the start.",
)
METRICS_LISTENER = GENERAL.optional_string(
    "metrics.listener",
    "Where metrics can be read over HTTP, as `HTTP://host:port`: `/metrics` has them in the text "
    "format of Prometheus, under the names that [operations.md](operations.md#metrics) lists. "
    "Whoever can connect can read them. Not set: no port is opened. Apache Kafka has no such "
    "setting; its metrics are in JMX.",
    listed=False,
)
CONFIG_PROVIDERS = GENERAL.names(
    "config.providers",
    (),
    "Names of sources for `${...}` placeholders in values. Placeholders are not replaced; a value "
    "that holds one while this is set stops the start.",
    update=Update.CLUSTER_WIDE,
)
BACKGROUND_THREADS = GENERAL.integer(
    "background.threads",
    10,
    "The size of Kafka's pool for background work. Moldau works on one event loop with a few "
    "helper threads.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
    inert=True,
)
