"""Options of connections and requests."""

from __future__ import annotations

from typing import Final

from moldau.config.option import MAX_INT, Area, Update

NETWORK: Final = Area(
    "Network",
    "Limits on connections and requests. Kafka's thread and queue sizes load but change nothing: "
    "one event loop serves every connection, and more cores are used by running more nodes.",
)

SOCKET_SEND_BUFFER_BYTES = NETWORK.integer(
    "socket.send.buffer.bytes",
    102_400,
    "The kernel's send buffer of a connection; -1, or not setting it, leaves it to the operating "
    "system.",
)
SOCKET_RECEIVE_BUFFER_BYTES = NETWORK.integer(
    "socket.receive.buffer.bytes",
    102_400,
    "The kernel's receive buffer of a connection; -1, or not setting it, leaves it to the "
    "operating system.",
)
SOCKET_REQUEST_MAX_BYTES = NETWORK.integer(
    "socket.request.max.bytes",
    104_857_600,
    "The largest request that is read. A bigger announced size closes the connection before any "
    "memory is set aside for it.",
    at_least=1,
)
SOCKET_LISTEN_BACKLOG_SIZE = NETWORK.integer(
    "socket.listen.backlog.size",
    50,
    "How many new connections the kernel keeps waiting to be accepted.",
    at_least=1,
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS = NETWORK.long(
    "socket.connection.setup.timeout.ms",
    10_000,
    "How long a connection to another node may take to be established; doubled after each failure.",
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = NETWORK.long(
    "socket.connection.setup.timeout.max.ms",
    30_000,
    "The longest that doubling may stretch `socket.connection.setup.timeout.ms`.",
)
MAX_CONNECTIONS = NETWORK.integer(
    "max.connections",
    MAX_INT,
    "How many connections the broker holds at a time; further ones wait or are closed.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
MAX_CONNECTIONS_PER_IP = NETWORK.integer(
    "max.connections.per.ip",
    MAX_INT,
    "How many connections one address may hold; further ones are closed. 0 only together with "
    "`max.connections.per.ip.overrides`.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = NETWORK.string(
    "max.connections.per.ip.overrides",
    "",
    "Other limits for some addresses, as `host:count` pairs between commas.",
    update=Update.CLUSTER_WIDE,
)
MAX_CONNECTION_CREATION_RATE = NETWORK.integer(
    "max.connection.creation.rate",
    MAX_INT,
    "How many new connections are accepted per second. Not enforced yet.",
    at_least=0,
    update=Update.CLUSTER_WIDE,
    inert=True,
)
CONNECTIONS_MAX_IDLE_MS = NETWORK.long(
    "connections.max.idle.ms",
    600_000,
    "A connection without any request for this long is closed; a negative value keeps it forever.",
)
QUEUED_MAX_REQUEST_BYTES = NETWORK.long(
    "queued.max.request.bytes",
    -1,
    "The memory that requests waiting for a thread may take. Requests do not wait for threads "
    "here.",
    inert=True,
)
QUEUED_MAX_REQUESTS = NETWORK.integer(
    "queued.max.requests",
    500,
    "How many requests may wait for a thread. Requests do not wait for threads here.",
    at_least=1,
    inert=True,
)
NUM_NETWORK_THREADS = NETWORK.integer(
    "num.network.threads",
    3,
    "How many threads move bytes. One event loop does.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
    inert=True,
)
NUM_IO_THREADS = NETWORK.integer(
    "num.io.threads",
    8,
    "How many threads execute requests. One event loop does.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
    inert=True,
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = NETWORK.integer(
    "connection.failed.authentication.delay.ms",
    100,
    "The pause before a failed login is answered, which slows guessing down. There are no logins "
    "yet.",
    at_least=0,
    inert=True,
)

FETCHING: Final = Area("Fetching", "Limits on what one Fetch request may read.")

FETCH_MAX_BYTES = FETCHING.integer(
    "fetch.max.bytes",
    57_671_680,
    "The most that one Fetch answer holds, whatever the client asks for. One batch is always "
    "sent, so that a reader never gets stuck on a big one.",
    at_least=1024,
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = FETCHING.integer(
    "max.incremental.fetch.session.cache.slots",
    1000,
    "How many incremental fetch sessions the broker remembers; 0 turns them off.",
    at_least=0,
)
FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = FETCHING.integer(
    "fetch.purgatory.purge.interval.requests",
    1000,
    "How often Kafka sweeps finished fetches out of its waiting room. Ours leave it by themselves.",
    inert=True,
)
PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS = FETCHING.integer(
    "producer.purgatory.purge.interval.requests",
    1000,
    "How often Kafka sweeps finished produce requests out of its waiting room. Ours leave it by "
    "themselves.",
    inert=True,
)
DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS = FETCHING.integer(
    "delete.records.purgatory.purge.interval.requests",
    1,
    "How often Kafka sweeps finished DeleteRecords requests out of its waiting room. Ours leave "
    "it by themselves.",
    inert=True,
)
