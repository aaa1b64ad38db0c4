"""Records between the buffer and the user: taken, and not yet seen by anybody.

Positions move when records are taken. If they then get lost on their way (the call is cancelled,
Ctrl-C), positions go back; and as long as they are on their way, commits do not count them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from moldau.client.consumer.positions import Position
from moldau.client.errors import KafkaError
from moldau.model import TopicPartition


class Taken:
    def __init__(self, go_back: Callable[[TopicPartition, Position], None]) -> None:
        self.takes = 0
        """How often something may have been taken."""
        self.gathering = False
        """Whether what earlier polls gave is still here, until a batch is complete."""
        self._go_back = go_back
        self._before: dict[TopicPartition, Position | None] = {}
        self._on_the_way = False

    def arrived(self) -> None:
        """What was taken so far has reached the user, unless it is part of a batch."""
        self.takes += 1
        if not self.gathering:
            self._before = {}

    def take(self, partition: TopicPartition, before: Position | None) -> None:
        """Records of this partition are taken, from this position on."""
        self._before.setdefault(partition, before)

    def held(self) -> Mapping[TopicPartition, Position | None]:
        """Where the partitions were before what is on its way now."""
        return self._before if self._on_the_way else {}

    @property
    def partitions(self) -> list[TopicPartition]:
        """Where something was taken from since the poll, or the batch, began."""
        return list(self._before)

    @contextmanager
    def handing_out(self) -> Iterator[None]:
        """What is taken in here has reached the user when it ends well, and not before."""
        takes, outer, self._on_the_way = self.takes, self._on_the_way, True
        try:
            yield
        except KafkaError:
            raise  # a poll raises these instead of taking something
        except BaseException:
            self.rewind(takes)
            raise
        finally:
            self._on_the_way = outer

    def rewind(self, takes: int) -> None:
        """What was taken since there were that many takes is lost: give it again."""
        if self.takes == takes:
            return
        for partition, position in self._before.items():
            if position is not None:
                self._go_back(partition, position)
        self._before = {}
