"""Damaged messages between their discovery and the poll that reports them."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from moldau.client.errors import LargeMessageError
from moldau.client.large.codec import OnDamage
from moldau.model import TopicPartition

logger: Final = logging.getLogger(__name__)


class Damages:
    def __init__(self, on_damage: OnDamage) -> None:
        self._skip = on_damage == "skip"
        self._found: deque[LargeMessageError] = deque()
        self._raised: LargeMessageError | None = None

    def add(
        self,
        partition: TopicPartition,
        offset: int,
        message: str,
        because: Exception | None = None,
    ) -> None:
        """``offset`` is where reading has to start to see the message again."""
        error = LargeMessageError(partition, offset, message)
        error.__cause__ = because
        if self._skip:
            logger.warning("%s; it is skipped", error.message)
        else:
            self._found.append(error)

    def check(self) -> None:
        self._raised = self._found.popleft() if self._found else None
        if self._raised is not None:
            raise self._raised

    def lowest(self, partition: TopicPartition, offset: int) -> int:
        """The lowest offset that may be committed: what was not reported yet is held."""
        held = [error for error in self._found if error.partition == partition]
        if self._raised is not None and self._raised.partition == partition:
            held.append(self._raised)
        return min([offset, *(error.offset for error in held)])

    def forget(self, partition: TopicPartition) -> None:
        self._found = deque(error for error in self._found if error.partition != partition)
        if self._raised is not None and self._raised.partition == partition:
            self._raised = None
