from __future__ import annotations

import pytest

from moldau.config.values.broker import BrokerConfig
from moldau.groups.settings import GroupSettings, MigrationPolicy

MINIMAL = {"process.roles": "broker,controller", "node.id": "1"}


def test_defaults_are_those_of_the_options() -> None:
    assert GroupSettings.from_config(BrokerConfig(MINIMAL)) == GroupSettings()


def test_settings_come_from_the_configuration() -> None:
    settings = GroupSettings.from_config(
        BrokerConfig(
            {
                **MINIMAL,
                "offsets.retention.minutes": "3",
                "group.consumer.assignors": "range",
                "group.consumer.migration.policy": "Upgrade",
                "group.max.size": "5",
            }
        )
    )
    assert settings == GroupSettings(
        offsets_retention_ms=180_000,
        group_consumer_assignors=("range",),
        group_consumer_migration_policy=MigrationPolicy.UPGRADE,
        group_max_size=5,
    )


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        (MigrationPolicy.DISABLED, False, False),
        (MigrationPolicy.UPGRADE, True, False),
        (MigrationPolicy.DOWNGRADE, False, True),
        (MigrationPolicy.BIDIRECTIONAL, True, True),
    ],
)
def test_policies_allow_directions(policy: MigrationPolicy, up: bool, down: bool) -> None:
    assert (policy.allows_upgrade, policy.allows_downgrade) == (up, down)
