"""Settings that producers, consumers and admin clients share."""

from __future__ import annotations

from typing import Any

from moldau.client.settings.security import SecuritySettings
from moldau.config.declare import boolean, integer, long, string
from moldau.config.option import REQUIRED, Option
from moldau.config.types import ConfigType
from moldau.config.validators import OneOf
from moldau.net.address import parse_bootstrap, show

Address = tuple[str, int]


def _bootstrap_servers() -> Option[tuple[Address, ...]]:
    return Option(
        ConfigType.LIST,
        lambda text: tuple(parse_bootstrap(text)),
        REQUIRED,
        "Some brokers of the cluster, as host:port; the others are found through them.",
    )


class CommonSettings(SecuritySettings):
    """What it takes to talk to a cluster."""

    bootstrap_servers = _bootstrap_servers()
    client_id = string("moldau", "A name for this client in the brokers' logs, metrics and quotas.")
    client_rack = string(
        "", "Where this client stands; a consumer may then read from the nearest replica."
    )
    client_dns_lookup = string(
        "use_all_dns_ips",
        "Whether all addresses of a name are tried in turn. Only that is done.",
        allowed=OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    )
    connections_max_idle_ms = long(
        540_000, "A connection without traffic for so long is closed; -1 keeps it.", at_least=-1
    )
    enable_metrics_push = boolean(
        True, "This client does not push its metrics to the cluster.", inert=True
    )
    metadata_max_age_ms = long(
        300_000, "What is known about the cluster is asked for anew after so long.", at_least=0
    )
    metadata_recovery_strategy = string(
        "rebootstrap",
        "When none of the known brokers can be reached: start over from bootstrap.servers, or "
        "keep trying the known ones.",
        convert=str.lower,
        allowed=OneOf("rebootstrap", "none"),
    )
    metadata_recovery_rebootstrap_trigger_ms = long(
        300_000,
        "Start over from bootstrap.servers when metadata could not be had for so long.",
        at_least=0,
    )
    metrics_num_samples = integer(2, "How many windows a rate in metrics() looks back.", at_least=1)
    metrics_recording_level = string(
        "INFO", "There is one level.", allowed=OneOf("INFO", "DEBUG", "TRACE"), inert=True
    )
    metrics_sample_window_ms = long(
        30_000, "The length of a window of the rates in metrics().", at_least=0
    )
    receive_buffer_bytes = integer(
        65_536, "SO_RCVBUF of connections; -1 leaves it to the operating system.", at_least=-1
    )
    send_buffer_bytes = integer(
        131_072, "SO_SNDBUF of connections; -1 leaves it to the operating system.", at_least=-1
    )
    reconnect_backoff_ms = long(
        50, "The pause before a broker that could not be reached is tried again.", at_least=0
    )
    reconnect_backoff_max_ms = long(
        1000, "That pause doubles with each failure, up to this, give or take a fifth.", at_least=0
    )
    request_timeout_ms = integer(
        30_000, "How long a broker may take to answer a request.", at_least=0
    )
    retry_backoff_ms = long(100, "The pause before a failed request is repeated.", at_least=0)
    retry_backoff_max_ms = long(
        1000, "That pause doubles with each failure, up to this, give or take a fifth.", at_least=0
    )
    socket_connection_setup_timeout_ms = long(
        10_000, "How long setting up a connection may take.", at_least=0
    )
    socket_connection_setup_timeout_max_ms = long(
        30_000, "That doubles with each failure, up to this.", at_least=0
    )

    def _derive(self, values: dict[str, Any]) -> None:
        super()._derive(values)
        # As Kafka does: a raised first pause raises the longest one, unless that was given.
        for name in ("reconnect_backoff", "retry_backoff"):
            first, longest = values[f"{name}_ms"], values[f"{name}_max_ms"]
            if first > longest:
                values[f"{name}_max_ms"] = first

    @property
    def request_timeout(self) -> float:
        """``request.timeout.ms`` in seconds."""
        return self.request_timeout_ms / 1000

    @property
    def servers(self) -> str:
        """``bootstrap.servers`` as they are written."""
        return ",".join(show(*address) for address in self.bootstrap_servers)
