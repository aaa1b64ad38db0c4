"""What the controller is configured with. The broker fills it from its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from moldau.config.options.coordination import CoordinationOptions
from moldau.config.options.quotas import QuotaOptions
from moldau.config.options.replication import ReplicationOptions
from moldau.config.options.topic_creation import TopicCreationOptions
from moldau.quotas.meters import Window

DEFAULT_WINDOW = Window(
    QuotaOptions.controller_quota_window_num.default,
    QuotaOptions.controller_quota_window_size_seconds.default * 1000,
)


async def always_has_room(_partitions: int) -> bool:
    return True


def _accept(*_config: str | Mapping[str, str]) -> None:
    return None


@dataclass(slots=True)
class ControllerSettings:
    """Attributes may be replaced while the controller runs (dynamic settings)."""

    num_partitions: int = TopicCreationOptions.num_partitions.default
    default_replication_factor: int = TopicCreationOptions.default_replication_factor.default
    delete_topic_enable: bool = TopicCreationOptions.delete_topic_enable.default
    unclean_leader_election_enable: bool = ReplicationOptions.unclean_leader_election_enable.default
    """What the broker's file says; settings made at run time win, see ``ActiveController``."""
    session_timeout_ms: int = CoordinationOptions.zookeeper_session_timeout_ms.default
    """How long the store may hold on to what an earlier life of the broker has registered."""
    auto_leader_rebalance_enable: bool = ReplicationOptions.auto_leader_rebalance_enable.default
    leader_imbalance_check_interval_s: int = (
        ReplicationOptions.leader_imbalance_check_interval_seconds.default
    )
    leader_imbalance_percentage: int = (
        ReplicationOptions.leader_imbalance_per_broker_percentage.default
    )
    mutation_window: Window = DEFAULT_WINDOW
    """``controller.quota.window.num`` and ``controller.quota.window.size.seconds``"""
    cordoned: Callable[[], Collection[int]] = tuple
    """Brokers that get no new replicas: all their log directories are cordoned (KIP-1066)."""
    has_room: Callable[[int], Awaitable[bool]] = always_has_room
    """Whether so many partitions more can be made: each attempt that fails takes from the room
    that the store has of its own on a full disk."""
    stray_topics: Mapping[str, str] = field(default_factory=dict)
    """Names that are reserved, and why: log directories hold partitions of topics that the store
    does not know."""
    validate_topic_config: Callable[[Mapping[str, str]], None] = _accept
    """Raises KafkaError(INVALID_CONFIG, sentence) for overrides that no topic may have."""
    validate_broker_config: Callable[[str, Mapping[str, str]], None] = _accept
    """The same for what is set at run time for this broker (its id) or for all (empty string)."""
    validate_group_config: Callable[[Mapping[str, str]], None] = _accept
