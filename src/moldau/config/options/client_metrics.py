"""Options of a subscription to clients' metrics (KIP-714)."""

from __future__ import annotations

from moldau.config.declare import integer, names
from moldau.config.option import Options

DEFAULT_INTERVAL_MS = 5 * 60 * 1000


class ClientMetricsOptions(Options):
    """Settings of one subscription to metrics of clients (KIP-714), given with
    `moldau config alter client-metrics`, `kafka-client-metrics.sh` or `kafka-configs.sh`. They are
    checked, kept and told; as with a Kafka broker that has no telemetry plugin, clients are not
    asked for their metrics.
    """

    title = "Client metrics settings"

    interval_ms = integer(
        DEFAULT_INTERVAL_MS,
        "How often a client sends its metrics, from 100 to 3600000.",
        inert=True,
    )
    match = names(
        (),
        "Which clients are meant: all of these patterns `selector=regex` match, with the selectors "
        "client_instance_id, client_id, client_software_name, client_software_version, "
        "client_source_address and client_source_port; none: every client.",
        inert=True,
    )
    metrics = names((), "Prefixes of the metrics that are wanted; `*` for all of them.", inert=True)
