"""Records between the buffer and the user: taken, and not yet seen by anybody.

Positions move when records are taken, and marks stay where they were. If the records then get lost
on their way (the call is cancelled, Ctrl-C), positions go back to the marks; and as long as they
are on their way, commits do not count them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moldau.client.consumer.partition_state import BufferSpace, PartitionState
from moldau.client.consumer.position import Position
from moldau.client.errors import KafkaError


class Handover:
    def __init__(self, space: BufferSpace) -> None:
        self._lock = space.lock
        self.takes = 0
        """How often something may have been taken."""
        self.gathering = False
        """Whether what earlier polls gave is still here, until a batch is complete."""
        self.lost = False
        """Whether positions have to go back before anything else may be taken."""
        self.go_back: Callable[[PartitionState, Position], object] = PartitionState.seek
        """How a partition gets back to its mark."""
        self._marked: dict[PartitionState, None] = {}
        self._on_the_way = False

    def arrived(self) -> None:
        """What was taken so far has reached the user, unless it is part of a batch."""
        self.takes += 1
        if self._marked and not self.gathering:
            with self._lock:
                for state in self._marked:
                    state.mark = None
            self._marked.clear()

    def takes_from(self, state: PartitionState) -> None:
        """Records of this partition are about to be taken; the lock is held."""
        if state.mark is None:
            state.mark = state.position
            self._marked[state] = None

    def reached(self, state: PartitionState) -> Position | None:
        """Where the user is: not past what is on its way now."""
        if self._on_the_way and state.mark is not None:
            return state.mark
        return state.position

    @property
    def partitions(self) -> list[PartitionState]:
        """Where something was taken from since the poll, or the batch, began."""
        return list(self._marked)

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
        self.lost = False
        if self.takes == takes:
            return
        for state in self.partitions:
            if state.mark is not None:
                self.go_back(state, state.mark)
        self._marked.clear()
