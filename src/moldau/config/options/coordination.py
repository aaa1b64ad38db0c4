"""Options: how nodes find each other, and leave."""

from __future__ import annotations

from moldau.config.declare import boolean, integer, long, optional_integer, optional_string
from moldau.config.option import Options


class CoordinationOptions(Options):
    """How nodes find each other and leave. Coordination data lives in the node's own data directory
    so far; `zookeeper.connect` is read and gives a warning.
    """

    title = "Coordination and shutdown"

    zookeeper_connect = optional_string(
        "The ZooKeeper ensemble as `host:port` pairs, with an optional path behind them. It is "
        "not contacted: the node keeps its own coordination data.",
        listed=False,
    )
    zookeeper_session_timeout_ms = integer(
        18_000,
        "How long a node may be silent before its session, and with it its membership, ends.",
        at_least=1,
        listed=False,
    )
    zookeeper_connection_timeout_ms = optional_integer(
        "How long to wait for the first connection; the session timeout when not set.", listed=False
    )
    zookeeper_max_in_flight_requests = integer(
        10,
        "How many requests to the ensemble may be unanswered at a time.",
        at_least=1,
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
        3, "How often handing over is tried before the broker stops anyway.", listed=False
    )
    controlled_shutdown_retry_backoff_ms = long(
        5000, "The pause between two tries of handing over.", listed=False
    )
    request_timeout_ms = integer(
        30_000, "How long a request to another node may take before it fails."
    )
