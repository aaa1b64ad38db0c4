"""What the controller is configured with. The broker fills it from its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass


def _accept(*_config: str | Mapping[str, str]) -> None:
    return None


@dataclass(slots=True)
class ControllerSettings:
    """Attributes may be replaced while the controller runs (dynamic settings)."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    """What the broker's file says; settings made at run time win, see ``ActiveController``."""
    cordoned: Callable[[], Collection[int]] = tuple
    """Brokers that get no new replicas: all their log directories are cordoned (KIP-1066)."""
    validate_topic_config: Callable[[Mapping[str, str]], None] = _accept
    """Raises KafkaError(INVALID_CONFIG, sentence) for overrides that no topic may have."""
    validate_broker_config: Callable[[str, Mapping[str, str]], None] = _accept
    """The same for what is set at run time for this broker (its id) or for all (empty string)."""
    validate_group_config: Callable[[Mapping[str, str]], None] = _accept
