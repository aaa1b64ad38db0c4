"""What producers and consumers know of large messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord

Header = tuple[str, bytes | None]
Part = tuple[bytes, list[Header]]
"""Value and headers of one record that goes to the log."""

OnDamage = Literal["raise", "skip"]
"""``raise``: poll() fails once with ``LargeMessageError``; ``skip``: a log line says it is gone."""


Convert = Callable[[ConsumerRecord], object]
"""Deserializes a whole message in place."""


class LargeMessageCodec(Protocol):
    @property
    def threshold(self) -> int:
        """Values up to so many bytes are sent as they are."""

    @property
    def blocking(self) -> bool:
        """Whether ``encode`` and ``read`` wait for storage: async clients then use a thread."""

    def encode(
        self, topic: str, value: bytes | None, headers: Sequence[Header], machine: Machine
    ) -> list[Part]:
        """The records to send in place of this one, all under its key, to one partition, in order.

        An empty list: send it as it is.
        """

    def reader(self, convert: Convert | None = None) -> LargeMessageReader:
        """The other direction, with a consumer's state. What ``convert`` raises is damage."""


class LargeMessageReader(Protocol):
    """Between a consumer's fetches and its user. Keys and values are bytes here."""

    def read(
        self, partition: TopicPartition, records: Sequence[ConsumerRecord], now: float
    ) -> list[ConsumerRecord]:
        """Records in the order of the log become whole messages; damage is left to ``check``."""

    def check(self) -> None:
        """Raise the next damage that was found. Called at the start of each poll.

        The damaged message holds back commits until the call after the one that raised: a program
        that ends by the error finds it again, one that polls on has left it behind.
        """

    def committable(self, partition: TopicPartition, offset: int) -> int:
        """The offset to commit instead of this one, so that no message is cut in two.

        Offsets of one partition are committed in ascending order.
        """

    def forget(self, partition: TopicPartition) -> None:
        """The position was moved, or the partition is no longer ours."""
