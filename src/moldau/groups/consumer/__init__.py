"""Groups under the consumer protocol (KIP-848)."""

from moldau.groups.consumer.groups import ConsumerGroups
from moldau.groups.consumer.timers import GroupTimeout

__all__ = ["ConsumerGroups", "GroupTimeout"]
