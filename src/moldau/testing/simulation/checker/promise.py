"""What a cluster promises: the table of docs/operations.md, as the checks ask it.

========================================  =====================================================
what happens                              what stays
========================================  =====================================================
any number of brokers are killed, at any  everything acknowledged at ``acks=all``, everything that
time                                      somebody saw
a minority of the brokers lose power      the same
between two catch-ups
more of them lose power                   of each partition all but a tail; with
                                          ``flush.messages=1`` the same as above
========================================  =====================================================

A catch-up is a moment at which every replica of every partition is in sync. One broker is a cluster
of which no minority can lose power; what it acknowledged at ``acks=1`` is as good as ``acks=all``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.testing.simulation.checker.crash import Crash

ALL: Final = -1


def harmful_cuts(
    crashes: Iterable[Crash], caught_up: Iterable[float], *, brokers: int
) -> list[float]:
    """Returns when the power went where it may have taken something: the cuts of more brokers than
    a minority since the last catch-up.
    """
    minority = (brokers - 1) // 2
    catch_ups = sorted(caught_up)
    without_power: set[str] = set()
    harmful = []
    for crash in sorted((crash for crash in crashes if crash.power), key=lambda crash: crash.at):
        while catch_ups and catch_ups[0] <= crash.at:
            catch_ups.pop(0)
            without_power.clear()
        without_power.add(crash.node)
        if len(without_power) > minority:
            harmful.append(crash.at)
    return harmful


def is_promised(acks: int, *, brokers: int) -> bool:
    """Returns whether what was acknowledged so is promised to stay."""
    return acks == ALL if brokers > 1 else acks != 0
