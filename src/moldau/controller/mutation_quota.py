"""What a request for topics or partitions costs its client (KIP-599)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from moldau.controller.requests import CreateTopicResult, DeleteTopicResult, Mutator, TopicResult
from moldau.errors import ErrorCode, KafkaError
from moldau.quotas.manager import ClientQuotaManager
from moldau.quotas.meters import TokenBucket

R = TypeVar("R", CreateTopicResult, DeleteTopicResult, TopicResult)


class MutationQuota:
    """Of one request: ``charge`` is called for each topic, with the partitions that it is about."""

    def __init__(
        self,
        manager: ClientQuotaManager[TokenBucket],
        mutator: Mutator | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._manager = manager
        self._mutator = mutator
        self._now_ms = now_ms
        self._throttled_until_ms = 0

    def charge(self, partitions: int) -> None:
        """Raises THROTTLING_QUOTA_EXCEEDED if the quota is strict and used up."""
        mutator = self._mutator
        if mutator is None or not self._manager.is_active:
            return
        manager, client, now_ms = self._manager, (mutator.user, mutator.client_id), self._now_ms()
        if mutator.strict:
            # What goes over the quota the first time is let through, or it might never be.
            throttle_ms = manager.throttle_ms(client, now_ms)
            if not throttle_ms:
                manager.record(client, partitions, now_ms)
        else:
            throttle_ms = manager.record(client, partitions, now_ms)
        self._throttled_until_ms = max(self._throttled_until_ms, now_ms + throttle_ms)
        if mutator.strict and throttle_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def stamp(self, results: Sequence[R]) -> list[R]:
        """Returns the results with the time for which the client has to hold back."""
        throttle_ms = max(self._throttled_until_ms - self._now_ms(), 0) if results else 0
        if not throttle_ms:
            return list(results)
        return [msgspec.structs.replace(result, throttle_ms=throttle_ms) for result in results]
