"""What the settings of a broker mean for its controller."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.configs import Configs
from moldau.config.altering.validation import (
    validate_broker_update,
    validate_group_configs,
    validate_topic_configs,
)
from moldau.config.values.broker import BrokerConfig
from moldau.controller import (
    ControllerSettings,
)
from moldau.controller.settings import always_has_room
from moldau.log import LogManager
from moldau.quotas.meters import Window


def controller_settings(
    configs: Configs, logs: LogManager, strays: Mapping[str, str], *, alone: bool
) -> ControllerSettings:
    config = configs.broker

    def validate_topic(overrides: Mapping[str, str]) -> None:
        validate_topic_configs(overrides, configs.broker)

    def validate_broker(entity: str, settings: Mapping[str, str]) -> None:
        validate_broker_update(configs.broker, settings, per_broker=bool(entity))

    def validate_group(settings: Mapping[str, str]) -> None:
        validate_group_configs(settings, configs.broker)

    return ControllerSettings(
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        session_timeout_ms=config.value(BrokerConfig.zookeeper_session_timeout_ms),
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable and not alone,
        leader_imbalance_check_interval_s=config.leader_imbalance_check_interval_seconds,
        leader_imbalance_percentage=config.leader_imbalance_per_broker_percentage,
        mutation_window=Window(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        ),
        cordoned=lambda: (config.node_id,) if logs.all_cordoned else (),
        # The store is elsewhere otherwise, and so are other disks.
        has_room=logs.has_room if alone else always_has_room,
        stray_topics=strays,
        validate_topic_config=validate_topic,
        validate_broker_config=validate_broker,
        validate_group_config=validate_group,
    )
