"""Options: how nodes find each other, and leave."""

from __future__ import annotations

from moldau.config.declare import (
    boolean,
    integer,
    long,
    optional_integer,
    optional_string,
    password,
)
from moldau.config.option import Options


class CoordinationOptions(Options):
    """How nodes find each other and leave. With `zookeeper.connect` a node joins the cluster there,
    on a ZooKeeper ensemble or on `moldau coordination serve`; without it, it keeps its coordination
    data in its first log directory and is a cluster of its own.
    """

    title = "Coordination and shutdown"

    zookeeper_connect = optional_string(
        "The ZooKeeper ensemble as `host:port` pairs, with an optional path behind the last, "
        "which is made if it is missing. Without it the node is a cluster of its own.",
        listed=False,
    )
    zookeeper_session_timeout_ms = integer(
        9_000,
        "How long a node may be silent before its session, and with it its membership, ends: so "
        "long a partition is without a leader when its leader's process dies. Kafka's default is "
        "18 s with ZooKeeper and 9 s without.",
        at_least=1,
        listed=False,
    )
    zookeeper_connection_timeout_ms = optional_integer(
        "How long to wait for the first connection; the session timeout when not set.", listed=False
    )
    zookeeper_max_in_flight_requests = integer(
        10,
        "How many requests to the ensemble may be unanswered at a time; 128 may, whatever this "
        "says.",
        at_least=1,
        listed=False,
        inert=True,
    )
    zookeeper_digest_credentials = password(
        "`user:password` of ZooKeeper's digest scheme, with which the node authenticates to the "
        "ensemble; Kafka has them in a JAAS file.",
        listed=False,
    )
    zookeeper_set_acl = boolean(
        False,
        "Whether nodes in ZooKeeper are made so that only who has `zookeeper.digest.credentials` "
        "may read and change them. Not with `moldau coordination serve`, which has no access "
        "control.",
        listed=False,
    )
    broker_heartbeat_interval_ms = integer(
        2000, "How often a KRaft broker tells the controller that it lives.", inert=True
    )
    broker_session_timeout_ms = integer(
        9000, "How long a KRaft broker may be silent before it counts as gone.", inert=True
    )
    initial_broker_registration_timeout_ms = integer(
        60_000, "How long a KRaft broker tries to register at its start.", inert=True
    )
    controller_socket_timeout_ms = integer(
        30_000, "How long the controller waits for a broker's answer on the network."
    )
    controlled_shutdown_enable = boolean(
        True, "Whether a broker hands its leaderships over before it stops."
    )
    controlled_shutdown_max_retries = integer(
        3,
        "A broker that stops waits for others to come into sync for so many pauses less one.",
        listed=False,
    )
    controlled_shutdown_retry_backoff_ms = long(
        5000, "Such a pause. The controller is asked more often.", listed=False
    )
    request_timeout_ms = integer(
        30_000, "How long a request to another node may take before it fails."
    )
