"""The settings in force: the broker's file, what was set at run time, each topic's and group's own,
and those of subscriptions to clients' metrics.

The controller feeds run-time values and overrides; everything that needs a setting asks here
at the moment it needs it, so that a change takes effect without a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping

from moldau.config.option import ConfigError
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.group import GroupConfig, group_config
from moldau.config.values.topic import TopicConfig

log = logging.getLogger(__name__)

EVERY_BROKER = ""


class Configs:
    """Effective settings of this broker, of all topics and of all groups."""

    def __init__(self, static: BrokerConfig) -> None:
        self.broker = static
        self._node = str(static.node_id)
        self._topic_overrides: dict[str, dict[str, str]] = {}
        self._topic_configs: dict[str, TopicConfig] = {}
        self._group_overrides: dict[str, dict[str, str]] = {}
        self._group_configs: dict[str, GroupConfig] = {}
        self._group_defaults: GroupConfig | None = None
        self.client_metrics: dict[str, dict[str, str]] = {}
        """The settings of each subscription to clients' metrics."""
        self.on_broker_change: list[Callable[[BrokerConfig], object]] = []
        """Called with the broker's new settings: for those who keep something made of them."""

    def topic(self, name: str) -> TopicConfig:
        """Returns what holds for a topic."""
        overrides = self._topic_overrides.get(name)
        if not overrides:
            return self.broker.topic_defaults
        config = self._topic_configs.get(name)
        if config is None:
            config = self._topic_configs[name] = self._build(name, overrides)
        return config

    def _build(self, name: str, overrides: Mapping[str, str]) -> TopicConfig:
        try:
            return self.broker.topic_defaults.override(overrides)
        except ConfigError as error:
            # Refused at the door, so this came from stored data: serve the topic rather than fail.
            log.warning("topic %s uses the broker's settings: %s", name, error)
            return self.broker.topic_defaults

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """Returns a topic's own settings."""
        return self._topic_overrides.get(name, {})

    def update(
        self,
        topic_configs: Mapping[str, dict[str, str]],
        broker_configs: Mapping[str, dict[str, str]],
    ) -> list[str] | None:
        """Take over new settings; returns the topics whose effective settings may have changed,
        None for all of them.
        """
        for name in topic_configs:
            self._topic_configs.pop(name, None)
        _take_over(self._topic_overrides, topic_configs)
        mine = {EVERY_BROKER, self._node} & broker_configs.keys()
        if not mine:
            return list(topic_configs)
        known = self.broker.warnings
        self.broker = self.broker.with_dynamic(
            broker_configs.get(EVERY_BROKER, dict(self.broker.cluster_dynamic)),
            broker_configs.get(self._node, dict(self.broker.broker_dynamic)),
        )
        for warning in self.broker.warnings:
            if warning not in known:
                log.warning("%s", warning)
        self._topic_configs.clear()
        self._group_configs.clear()
        self._group_defaults = None
        for tell in self.on_broker_change:
            tell(self.broker)
        return None

    def group(self, group_id: str) -> GroupConfig:
        """Returns what holds for a group."""
        overrides = self._group_overrides.get(group_id)
        if not overrides:
            if self._group_defaults is None:
                self._group_defaults = group_config(self.broker, {})
            return self._group_defaults
        config = self._group_configs.get(group_id)
        if config is None:
            config = self._group_configs[group_id] = self._build_group(group_id, overrides)
        return config

    def _build_group(self, group_id: str, overrides: Mapping[str, str]) -> GroupConfig:
        try:
            return group_config(self.broker, overrides)
        except ConfigError as error:
            log.warning("group %s uses the broker's settings: %s", group_id, error)
            return group_config(self.broker, {})

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """Returns a group's own settings."""
        return self._group_overrides.get(group_id, {})

    @property
    def configured_groups(self) -> Iterable[str]:
        """The groups that have settings of their own."""
        return self._group_overrides.keys()

    def update_groups(self, configs: Mapping[str, dict[str, str]], *, full: bool) -> None:
        """Take over settings of groups; ``full``: no other group has any."""
        if full:
            self._group_configs.clear()
        for group_id in configs:
            self._group_configs.pop(group_id, None)
        _take_over(self._group_overrides, configs, full=full)

    def update_client_metrics(self, configs: Mapping[str, dict[str, str]], *, full: bool) -> None:
        """Take over settings of subscriptions; ``full``: there is no other."""
        _take_over(self.client_metrics, configs, full=full)

    def forget_topic(self, name: str) -> None:
        self._topic_overrides.pop(name, None)
        self._topic_configs.pop(name, None)

    def forget_topics_except(self, names: Container[str]) -> None:
        """No other topic exists."""
        for name in [name for name in self._topic_overrides if name not in names]:
            self.forget_topic(name)

    def forgotten_broker_configs(self, told: Container[str]) -> dict[str, dict[str, str]]:
        """Returns what is to be updated if no settings hold for this broker but those ``told``."""
        known = {EVERY_BROKER: self.broker.cluster_dynamic, self._node: self.broker.broker_dynamic}
        return {entity: {} for entity, config in known.items() if config and entity not in told}


def _take_over(
    known: dict[str, dict[str, str]], configs: Mapping[str, dict[str, str]], *, full: bool = False
) -> None:
    """Put what was said of some entities over what is known; without settings, one is forgotten."""
    if full:
        known.clear()
    for name, overrides in configs.items():
        if overrides:
            known[name] = overrides
        else:
            known.pop(name, None)
