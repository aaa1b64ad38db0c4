"""Groups under the consumer protocol (KIP-848)."""

from moldau.groups.consumer.groups import ConsumerGroups
from moldau.groups.consumer.timers import MemberTimeout

__all__ = ["ConsumerGroups", "MemberTimeout"]
