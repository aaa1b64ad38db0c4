"""Every state that a small cluster can reach, and what holds in all of them."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tests.unit.replication.isr_model import SOUND, BrokenPromiseError, Model, Rules
from tests.unit.replication.isr_world import Leading, World, is_clean, numbered, tidy


def check(world: World) -> None:
    """Raise BrokenPromiseError with the name of what does not hold."""
    _check_eligible_leaders(world)
    _check_leaders(world)
    _check_logs(world)


def _check_eligible_leaders(world: World) -> None:
    eligible = world.decision.eligible
    if not eligible:
        raise BrokenPromiseError("somebody_may_lead")
    for number in eligible:
        if is_clean(world, number) or (len(eligible) == 1 and number != world.cut):
            log = world.broker(number).log
            if log[: len(world.visible)] != world.visible:
                raise BrokenPromiseError("committed_in_every_clean_leader")


def _check_leaders(world: World) -> None:
    decision = world.decision
    leaders: dict[int, int] = {}
    for number, broker in numbered(world):
        role = broker.role
        if not isinstance(role, Leading):
            continue
        if leaders.setdefault(role.leader_epoch, number) != number:
            raise BrokenPromiseError("one_leader_per_epoch")
        if role.leader_epoch != decision.leader_epoch:
            continue
        seen = broker.log[: broker.high_watermark]
        for member in decision.isr:
            if is_clean(world, member) and world.broker(member).log[: len(seen)] != seen:
                raise BrokenPromiseError("high_watermark_within_isr")


def _check_logs(world: World) -> None:
    for number, broker in numbered(world):
        if broker.high_watermark > len(broker.log):
            raise BrokenPromiseError("high_watermark_within_log")
        for other in world.brokers[number:]:
            for mine, theirs in zip(broker.log, other.log, strict=False):
                if mine[0] == theirs[0] and mine != theirs:
                    raise BrokenPromiseError("one_history_per_epoch")


class Found(NamedTuple):
    states: int
    violation: str = ""
    story: tuple[str, ...] = ()


def explore(world: World, rules: Rules = SOUND) -> Found:
    """Visit every state that can be reached, nearest first; stop at the first broken promise."""
    model = Model(rules)
    world = tidy(world)
    came_from: dict[World, tuple[World, str] | None] = {world: None}
    queue = deque([world])
    while queue:
        world = queue.popleft()
        try:
            for label, successor in model.successors(world):
                after = tidy(successor)
                if after not in came_from:
                    came_from[after] = (world, label)
                    check(after)
                    queue.append(after)
        except BrokenPromiseError as violation:
            last = next(reversed(came_from))
            reached = came_from[last]
            story = _story(came_from, last if reached and reached[0] is world else world)
            return Found(len(came_from), str(violation), story)
    return Found(len(came_from))


def _story(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels: list[str] = []
    step = came_from[world]
    while step is not None:
        world, label = step
        labels.append(label)
        step = came_from[world]
    return tuple(reversed(labels))
