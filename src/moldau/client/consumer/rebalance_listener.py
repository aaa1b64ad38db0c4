"""What happens to a consumer's partitions in a rebalance, told to the user."""

from __future__ import annotations

from collections.abc import Collection

from moldau.model import TopicPartition


class RebalanceListener:
    """Methods may be coroutines. They are called from ``poll``, and from ``close``.

    Offsets can be committed in ``on_revoked``; in ``on_lost`` it is too late.
    """

    def on_revoked(self, partitions: Collection[TopicPartition]) -> object:
        """These partitions are about to go to another member."""

    def on_assigned(self, partitions: Collection[TopicPartition]) -> object:
        """These partitions are new; it is a good moment to seek."""

    def on_lost(self, partitions: Collection[TopicPartition]) -> object:
        """These partitions may be another member's already."""
        return self.on_revoked(partitions)
