"""The memory that requests may take before they are executed: ``queued.max.request.bytes``.

Everything that holds bytes of requests is counted here: unfinished frames, what waits unread behind
a request that is not answered, copies that threads work on. Nobody is asked before bytes come that
fit into the scratch buffer, so that most requests never get here.

- An unfinished frame that needs more than a little memory asks for it. What does not fit waits, and
  goes on in the order in which it came to wait, but those first that need more for what they have
  begun: its connection is not read so long.
- One of them at a time may go over the limit, to the end of its frame. So a request that is larger
  than the limit gets through, too, and those that hold half of what they need do not wait for each
  other for ever. But not while copies alone take all there is: else each one's copy would make room
  for the next.
- Memory is given back when a frame is executed. Who lets it lie instead is dropped, but only while
  others wait for it.

Kafka's pool counts what frames announce and has no time limit: a few connections that announce the
largest request, and send a byte now and then, keep everybody out.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Final

from moldau.machine.clock import Clock, Timer

UNLIMITED: Final = sys.maxsize
LOOK_INTERVAL: Final = 1.0
UNFINISHED_SECONDS: Final = 5
"""For how long, in all, a frame may come too slowly while others wait for memory: a sixth of the
time after which producers give up (``request.timeout.ms``), so that who waits behind some who drip
is still served.
"""
HELD_SECONDS: Final = 30
"""How long memory may be held while others wait for it, whoever is the slow one: the time after
which clients give up anyway. A frame that comes too slowly for that brings, in a second, less than
this part of what it holds.
"""
STUCK_SECONDS: Final = 2 * UNFINISHED_SECONDS
"""How long those who were let go on may wait for still more, while hardly anything comes or is
given back: longer than those have who hold them up.
"""


class Borrower(ABC):
    """Somebody who holds memory of a pool, and may have to wait for more."""

    __slots__ = ("has_begun", "held", "seconds", "seen", "slow_seconds", "stuck_seconds")

    def __init__(self) -> None:
        self.held = 0
        """Bytes, by the pool's count."""
        self.seconds = 0
        """For how long it was seen to hold them while others had to wait."""
        self.slow_seconds = 0
        """For how long it could have been brought more meanwhile, and hardly was."""
        self.stuck_seconds = 0
        """For how long it waited for more meanwhile, and nothing moved."""
        self.seen = 0
        """How many bytes of the peer were seen to be here."""
        self.has_begun = False
        """It was let go on, once at least, since it held nothing."""

    @property
    @abstractmethod
    def buffered(self) -> int:
        """How many bytes of the peer are here."""

    @abstractmethod
    def missing(self) -> int:
        """Returns how many bytes more it needs to go on."""

    @abstractmethod
    def waits_for_peer(self) -> bool:
        """Returns whether the rest of what it holds has yet to come."""

    @abstractmethod
    def go_on(self) -> None:
        """The memory that it waited for is there; to be taken at once."""

    @abstractmethod
    def drop(self) -> None:
        """Give everything back, now."""


class MemoryPool:
    """Counts what is held, and says who may have more."""

    __slots__ = (
        "_borrowers",
        "_clock",
        "_copied",
        "_depleted_since",
        "_depleted_time",
        "_given_back",
        "_over_limit",
        "_timer",
        "_waiting",
        "is_depleted",
        "size",
        "used",
    )

    def __init__(self, size: int = UNLIMITED, clock: Clock | None = None) -> None:
        """A pool that has a size needs a clock."""
        self.size = size
        self.used = 0
        self.is_depleted = False
        """Whether whoever reads should take as little as possible."""
        self._clock = clock
        self._copied = 0
        self._given_back = 0  # since the last look, while somebody waited
        self._borrowers: dict[Borrower, None] = {}
        self._waiting: OrderedDict[Borrower, None] = OrderedDict()
        self._over_limit: Borrower | None = None
        self._timer: Timer | None = None
        self._depleted_since = 0.0
        self._depleted_time = 0.0

    @property
    def available(self) -> int:
        """What is left; negative while somebody is over the limit."""
        return self.size - self.used

    @property
    def waiting(self) -> int:
        """How many wait for memory."""
        return len(self._waiting)

    @property
    def depleted_ms(self) -> float:
        """For how long somebody had to wait, since the start."""
        time = self._depleted_time
        if self._waiting and self._clock is not None:
            time += self._clock.monotonic() - self._depleted_since
        return time * 1000

    def count(self, change: int) -> None:
        """So many bytes more are held, or fewer, by somebody who need not ask, and gives them back
        whatever others do.
        """
        self._copied += change
        self.used += change
        if self.is_depleted or self.used >= self.size:
            self._changed(change)

    def hold(self, borrower: Borrower, held: int) -> None:
        """A borrower holds so many bytes from now on."""
        if not borrower.held:
            self._borrowers[borrower] = None
            borrower.seconds = borrower.slow_seconds = borrower.stuck_seconds = 0
        change = held - borrower.held
        borrower.held = held
        self.used += change
        if self.is_depleted or self.used >= self.size:
            self._changed(change)

    def release(self, borrower: Borrower) -> None:
        """A borrower holds nothing any more."""
        held = borrower.held
        if not held:
            return
        borrower.held = 0
        borrower.has_begun = False
        del self._borrowers[borrower]
        if self._over_limit is borrower:
            self._over_limit = None
        if borrower in self._waiting:
            del self._waiting[borrower]
            if not self._waiting:
                self._nobody_waits()
        self.used -= held
        if self.is_depleted:
            self._changed(-held)

    def may_take(self, borrower: Borrower, missing: int) -> bool:
        """Returns whether a borrower may take what it is missing. Otherwise it waits from now on,
        and is told to go on; it holds what it has so far.
        """
        if not self._waiting and self.used + missing <= self.size:
            borrower.has_begun = True
            return True
        if borrower is self._over_limit:
            return True
        if not self._waiting:
            if self._one_may_go_over():
                self._over_limit = borrower
                borrower.has_begun = True
                return True
            self._somebody_waits()
        self._waiting[borrower] = None
        if borrower.has_begun:
            self._waiting.move_to_end(borrower, last=False)
        self.is_depleted = True
        return False

    def _changed(self, change: int) -> None:
        """So much more is used, or less, and that matters: there was nothing left, or is not."""
        if change < 0 and self._waiting:
            self._given_back -= change
            self._hand_out()
        self.is_depleted = self.used >= self.size or bool(self._waiting)

    def _one_may_go_over(self) -> bool:
        # Copies that threads work on do not wait for anybody: when they are the reason, it passes.
        return self._over_limit is None and self._copied < self.size

    def _hand_out(self) -> None:
        """Let those go on for whom there is memory, in their order."""
        waiting = self._waiting
        while waiting:
            first = next(iter(waiting))
            if self.used + first.missing() > self.size:
                if not self._one_may_go_over():
                    return
                self._over_limit = first
            del waiting[first]
            first.has_begun = True
            first.go_on()
        self._nobody_waits()

    # Who lets memory lie

    def _somebody_waits(self) -> None:
        assert self._clock is not None
        self._depleted_since = self._clock.monotonic()
        self._timer = self._clock.call_later(LOOK_INTERVAL, self._look)

    def _nobody_waits(self) -> None:
        assert self._clock is not None
        self._depleted_time += self._clock.monotonic() - self._depleted_since
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Drop who holds memory for too long, in the order in which they began, until nobody has to
        wait. Who waits himself grows older only when all wait for each other.
        """
        assert self._clock is not None
        self._timer = self._clock.call_later(LOOK_INTERVAL, self._look)
        waiting = self._waiting
        overdue: list[Borrower] = []
        moved, self._given_back = self._given_back, 0
        for borrower in self._borrowers:
            if borrower not in waiting:
                came = _came(borrower)
                moved += came
                if _is_overdue(borrower, came):
                    overdue.append(borrower)
        stuck: list[Borrower] = []
        if moved * HELD_SECONDS < self.size:
            stuck = [
                borrower
                for borrower in self._borrowers
                if borrower.has_begun and borrower in waiting and _is_stuck(borrower)
            ]
        for borrower in overdue:
            if not waiting:
                return
            borrower.drop()
        for borrower in stuck:
            if borrower in waiting:
                borrower.drop()


# A second has passed ------------------------------------------------------------------------------


def _came(borrower: Borrower) -> int:
    """Returns how much the peer has brought in it, as far as is known."""
    before = borrower.seen if borrower.seconds else borrower.buffered
    borrower.seen = borrower.buffered
    return borrower.seen - before


def _is_overdue(borrower: Borrower, came: int) -> bool:
    """Returns whether it was one too many for who holds memory."""
    borrower.seconds += 1
    is_slow = borrower.waits_for_peer() and came * HELD_SECONDS < borrower.held
    if is_slow:
        borrower.slow_seconds += 1
    return borrower.seconds > HELD_SECONDS or (
        is_slow and borrower.slow_seconds > UNFINISHED_SECONDS
    )


def _is_stuck(borrower: Borrower) -> bool:
    """Returns whether it was one too many for who waits, when nothing moved in it."""
    borrower.stuck_seconds += 1
    return borrower.stuck_seconds > STUCK_SECONDS
