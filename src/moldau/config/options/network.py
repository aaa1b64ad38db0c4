"""Options: connections and requests, and what one Fetch request may read."""

from __future__ import annotations

from typing import Final

from moldau.config.declare import CLUSTER_WIDE, integer, long, string
from moldau.config.option import Option, Options
from moldau.config.options.listeners import without_listener
from moldau.config.types import MAX_INT


class NetworkOptions(Options):
    """Limits on connections and requests. `max.connections` and `max.connection.creation.rate` can
    also be set for one listener, as `listener.name.<name>.max.connections`; for each listener that
    has none of its own, the broker's counts. Kafka's numbers of threads and of queued requests load
    but change nothing: one event loop serves every connection, and more cores are used by running
    more nodes.
    """

    title = "Network"

    socket_send_buffer_bytes = integer(
        102_400,
        "The kernel's send buffer of a connection; -1, or not setting it, leaves it to the "
        "operating system.",
    )
    socket_receive_buffer_bytes = integer(
        102_400,
        "The kernel's receive buffer of a connection; -1, or not setting it, leaves it to the "
        "operating system.",
    )
    socket_request_max_bytes = integer(
        104_857_600,
        "The largest request that is read. A bigger announced size closes the connection before "
        "any memory is set aside for it.",
        at_least=1,
    )
    socket_listen_backlog_size = integer(
        50, "How many new connections the kernel keeps waiting to be accepted.", at_least=1
    )
    socket_connection_setup_timeout_ms = long(
        10_000,
        "How long a connection to another node may take to be established; doubled after each "
        "failure.",
    )
    socket_connection_setup_timeout_max_ms = long(
        30_000, "The longest that doubling may stretch `socket.connection.setup.timeout.ms`."
    )
    max_connections = integer(
        MAX_INT,
        "How many connections the broker holds at a time; further ones wait. With several "
        "listeners, the one between brokers goes on, and connections of others are closed for it. "
        "Never more than leave descriptors for files: three quarters of `ulimit -n`, of less than "
        "4096 between that and one half.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip = integer(
        MAX_INT,
        "How many connections one address may hold; further ones are closed. 0 only together with "
        "`max.connections.per.ip.overrides`.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = string(
        "",
        "Other limits for some addresses, as `host:count` pairs between commas.",
        update=CLUSTER_WIDE,
    )
    max_connection_creation_rate = integer(
        MAX_INT,
        "How many new connections are accepted per second; further ones wait. With several "
        "listeners, those of the listener between brokers do not count.",
        at_least=0,
        update=CLUSTER_WIDE,
    )
    connections_max_idle_ms = long(
        600_000,
        "A connection without any request for this long is closed; a negative value keeps it "
        "forever.",
    )
    queued_max_request_bytes = long(
        -1,
        "The memory that requests may take before they are executed; connections that need more "
        "for an unfinished one are not read until others give some back. At least "
        "`socket.request.max.bytes`. The default, -1, is a quarter of the memory that the process "
        "may use; in Kafka there is no limit then.",
    )
    queued_max_requests = integer(
        500,
        "How many requests may wait for a thread. Requests do not wait for threads here.",
        at_least=1,
        inert=True,
    )
    num_network_threads = integer(
        3,
        "How many threads move bytes. One event loop does.",
        at_least=1,
        update=CLUSTER_WIDE,
        inert=True,
    )
    num_io_threads = integer(
        8,
        "How many threads execute requests. One event loop does.",
        at_least=1,
        update=CLUSTER_WIDE,
        inert=True,
    )
    connection_failed_authentication_delay_ms = integer(
        100,
        "The pause before a failed login is answered, which slows guessing down. So far it is "
        "other brokers that log in.",
        at_least=0,
    )


LISTENER_LIMITS: Final = {
    option.name: option
    for option in (NetworkOptions.max_connections, NetworkOptions.max_connection_creation_rate)
}
"""What may also be set for one listener."""


def listener_limit(name: str) -> Option[int] | None:
    """Returns what a setting limits for one listener."""
    return LISTENER_LIMITS.get(without_listener(name) or "")


class FetchOptions(Options):
    """Limits on what one Fetch request may read."""

    title = "Fetching"

    fetch_max_bytes = integer(
        57_671_680,
        "The most that one Fetch answer holds, whatever the client asks for. One batch is always "
        "sent, so that a reader never gets stuck on a big one.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots = integer(
        1000,
        "How many incremental fetch sessions the broker remembers; 0 turns them off. All of them "
        "together have at most 200 partitions for each slot.",
        at_least=0,
    )
    fetch_purgatory_purge_interval_requests = integer(
        1000,
        "How often Kafka sweeps finished fetches out of its waiting room. Ours leave it by "
        "themselves.",
        inert=True,
    )
    producer_purgatory_purge_interval_requests = integer(
        1000,
        "How often Kafka sweeps finished produce requests out of its waiting room. Ours leave it "
        "by themselves.",
        inert=True,
    )
    delete_records_purgatory_purge_interval_requests = integer(
        1,
        "How often Kafka sweeps finished DeleteRecords requests out of its waiting room. Ours "
        "leave it by themselves.",
        inert=True,
    )
