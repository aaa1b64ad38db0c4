"""All options by name."""

from __future__ import annotations

from typing import Final

from moldau.config import (
    group_options,
    log_options,
    network_options,
    per_group_options,
    replication_options,
    server_options,
    topic_options,
    transaction_options,
)
from moldau.config.option import AnyOption, Area

BROKER_AREAS: Final[tuple[Area, ...]] = (
    server_options.IDENTITY,
    server_options.LISTENERS_AREA,
    network_options.NETWORK,
    network_options.FETCHING,
    server_options.TOPICS,
    log_options.LOG,
    log_options.FLUSHING,
    log_options.CLEANER,
    replication_options.REPLICATION,
    transaction_options.TRANSACTIONS,
    group_options.GROUPS,
    server_options.COORDINATION,
    server_options.GENERAL,
)

BROKER_OPTIONS: Final[dict[str, AnyOption]] = {
    option.name: option for area in BROKER_AREAS for option in area.options
}

TOPIC_OPTIONS: Final[dict[str, AnyOption]] = {
    option.name: option for option in topic_options.TOPIC.options
}

GROUP_OPTIONS: Final[dict[str, AnyOption]] = {
    option.name: option for option in per_group_options.PER_GROUP.options
}
