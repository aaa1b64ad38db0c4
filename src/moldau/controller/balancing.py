"""Which partitions should be led by their preferred replica again. Pure.

Leaders move when brokers fail or stop, and stay where they are when these come back; then some
brokers lead more than their share.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.controller.link import LeaderAndIsr


def unbalanced(states: Iterable[LeaderAndIsr], percentage: int) -> list[LeaderAndIsr]:
    """Returns the partitions that others lead, of those brokers that do not lead more than so many
    percent of what they are the preferred leaders of (``leader.imbalance.per.broker.percentage``).
    """
    preferred: dict[int, int] = {}
    elsewhere: dict[int, list[LeaderAndIsr]] = {}
    for state in states:
        broker = state.replicas[0]
        preferred[broker] = preferred.get(broker, 0) + 1
        if state.leader != broker:
            elsewhere.setdefault(broker, []).append(state)
    return [
        state
        for broker, led_by_others in elsewhere.items()
        if 100 * len(led_by_others) > percentage * preferred[broker]
        for state in led_by_others
    ]
