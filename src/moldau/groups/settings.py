"""The settings that coordinators work with, as plain values.

``GroupSettings()`` has Kafka's defaults, which is what tests want; a broker fills it from its
configuration with ``GroupSettings.from_config``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from moldau.config.options.group_coordinator import CONSUMER_ASSIGNORS
from moldau.config.options.group_coordinator import GroupCoordinatorOptions as Options
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.group import GroupConfig

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


_DEFAULT_POLICY = MigrationPolicy(Options.group_consumer_migration_policy.default)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    group_min_session_timeout_ms: int = Options.group_min_session_timeout_ms.default
    group_max_session_timeout_ms: int = Options.group_max_session_timeout_ms.default
    group_initial_rebalance_delay_ms: int = Options.group_initial_rebalance_delay_ms.default
    group_max_size: int = Options.group_max_size.default

    group_consumer_session_timeout_ms: int = Options.group_consumer_session_timeout_ms.default
    group_consumer_heartbeat_interval_ms: int = Options.group_consumer_heartbeat_interval_ms.default
    group_consumer_max_size: int = Options.group_consumer_max_size.default
    group_consumer_assignors: tuple[str, ...] = Options.group_consumer_assignors.default
    group_consumer_migration_policy: MigrationPolicy = _DEFAULT_POLICY
    group_consumer_assignment_interval_ms: int = (
        Options.group_consumer_assignment_interval_ms.default
    )
    group_consumer_regex_refresh_interval_ms: int = (
        Options.group_consumer_regex_refresh_interval_ms.default
    )

    offset_metadata_max_bytes: int = Options.offset_metadata_max_bytes.default
    offsets_retention_ms: int = Options.offsets_retention_minutes.default * _MINUTE_MS
    offsets_retention_check_interval_ms: int = Options.offsets_retention_check_interval_ms.default

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
        values: dict[str, Any] = {
            option.attribute: config.value(option)
            for option in Options.table.values()
            if option.attribute in cls.__slots__
        }
        policy = config.group_consumer_migration_policy.lower()
        values["group_consumer_migration_policy"] = MigrationPolicy(policy)
        assignors = (CONSUMER_ASSIGNORS[name] for name in config.group_consumer_assignors)
        values["group_consumer_assignors"] = tuple(assignors)
        values["offsets_retention_ms"] = config.offsets_retention_minutes * _MINUTE_MS
        return cls(**values, group_config=group_config)
