"""Options that stand alone."""

from __future__ import annotations

from moldau.config.declare import CLUSTER_WIDE, boolean, integer, names, optional_string, string
from moldau.config.option import Options


class GeneralOptions(Options):
    """Settings that stand alone."""

    title = "Other"

    authorizer_class_name = string(
        "",
        "The class that decides who may do what. Access control is not served yet, so any value "
        "here stops the start rather than leaving the broker open without a word.",
    )
    remote_log_storage_system_enable = boolean(
        False,
        "Whether tiered storage is on. Moldau keeps logs on local disks only: `true` stops the "
        "start.",
    )
    metrics_listener = optional_string(
        "Where metrics can be read over HTTP, as `HTTP://host:port`: `/metrics` has them in the "
        "text format of Prometheus, under the names that [operations.md](operations.md#metrics) "
        "lists. Whoever can connect can read them. Not set: no port is opened. Apache Kafka has "
        "no such setting; its metrics are in JMX.",
        listed=False,
    )
    config_providers = names(
        (),
        "Names of sources for `${...}` placeholders in values. Placeholders are not replaced; a "
        "value that holds one while this is set stops the start.",
        update=CLUSTER_WIDE,
    )
    background_threads = integer(
        10,
        "The size of Kafka's pool for background work. Moldau works on one event loop with a few "
        "helper threads.",
        at_least=1,
        update=CLUSTER_WIDE,
        inert=True,
    )
