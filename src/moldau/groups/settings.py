"""The settings that coordinators work with, as plain values.

``GroupSettings()`` has Kafka's defaults, which is what tests want; a broker fills it from its
configuration with ``GroupSettings.from_config``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from moldau.config import group_options as options
from moldau.config.broker import BrokerConfig
from moldau.config.group import GroupConfig

_MINUTE_MS = 60_000


class MigrationPolicy(Enum):
    """In which directions a group may change its protocol while it has members."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Classic to consumer: members under the consumer protocol may join a classic group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Consumer to classic, when the last member under the consumer protocol leaves."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_size: int = 2**31 - 1
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_consumer_assignment_interval_ms: int = 1000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_regex_refresh_interval_ms: int = 600_000

    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10_080 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = 600_000

    group_config: Callable[[str], GroupConfig] | None = None
    """What holds for one group, asked anew each time: it may change while the group lives."""

    def of_group(self, group_id: str) -> GroupConfig:
        """What holds for a group: its own settings, or else the ones above."""
        if self.group_config is not None:
            return self.group_config(group_id)
        return GroupConfig(
            self.group_consumer_session_timeout_ms,
            self.group_consumer_heartbeat_interval_ms,
            self.group_consumer_assignment_interval_ms,
        )

    @classmethod
    def from_config(
        cls, config: BrokerConfig, group_config: Callable[[str], GroupConfig] | None = None
    ) -> GroupSettings:
        return cls(
            group_min_session_timeout_ms=config[options.GROUP_MIN_SESSION_TIMEOUT_MS],
            group_max_session_timeout_ms=config[options.GROUP_MAX_SESSION_TIMEOUT_MS],
            group_initial_rebalance_delay_ms=config[options.GROUP_INITIAL_REBALANCE_DELAY_MS],
            group_max_size=config[options.GROUP_MAX_SIZE],
            group_coordinator_rebalance_protocols=tuple(
                config[options.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
            ),
            group_consumer_session_timeout_ms=config[options.GROUP_CONSUMER_SESSION_TIMEOUT_MS],
            group_consumer_min_session_timeout_ms=config[
                options.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS
            ],
            group_consumer_max_session_timeout_ms=config[
                options.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS
            ],
            group_consumer_heartbeat_interval_ms=config[
                options.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS
            ],
            group_consumer_min_heartbeat_interval_ms=config[
                options.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS
            ],
            group_consumer_max_heartbeat_interval_ms=config[
                options.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS
            ],
            group_consumer_max_size=config[options.GROUP_CONSUMER_MAX_SIZE],
            group_consumer_assignors=tuple(config[options.GROUP_CONSUMER_ASSIGNORS]),
            group_consumer_migration_policy=MigrationPolicy(
                config[options.GROUP_CONSUMER_MIGRATION_POLICY].lower()
            ),
            group_consumer_assignment_interval_ms=config[
                options.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS
            ],
            group_consumer_min_assignment_interval_ms=config[
                options.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS
            ],
            group_consumer_max_assignment_interval_ms=config[
                options.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS
            ],
            group_consumer_regex_refresh_interval_ms=config[
                options.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS
            ],
            offset_metadata_max_bytes=config[options.OFFSET_METADATA_MAX_BYTES],
            offsets_retention_ms=config[options.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS,
            offsets_retention_check_interval_ms=config[options.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
            group_config=group_config,
        )
