from __future__ import annotations

import pytest

from moldau.config.options.group_coordinator import CONSUMER_ASSIGNORS
from moldau.config.values.broker import BrokerConfig
from moldau.groups.consumer.assignors import ASSIGNORS
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


def test_assignors_are_there_by_their_names_and_by_those_of_kafkas_classes() -> None:
    assert set(CONSUMER_ASSIGNORS.values()) == set(ASSIGNORS)
    named = "org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform"
    config = BrokerConfig({**MINIMAL, "group.consumer.assignors": named})
    assert GroupSettings.from_config(config).group_consumer_assignors == ("range", "uniform")


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
