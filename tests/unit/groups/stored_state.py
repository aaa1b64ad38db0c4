"""What is stored of a shard, as a coordinator that has only read the log knows it."""

from __future__ import annotations

from typing import Any

from tests.unit.groups.offset_harness import contents

from moldau.groups.classic import ClassicGroups
from moldau.groups.classic.stored import as_it_is
from moldau.groups.shard import GroupShard
from moldau.outcome import Record


def stored_classic_groups(groups: ClassicGroups) -> dict[str, Any]:
    """By group id. Groups that only have offsets are in the log through these."""
    return {
        group_id: group.stored
        for group_id, group in groups._groups.items()
        if group.stored is not None
    }


def check_classic_groups(groups: ClassicGroups) -> None:
    """Between two requests nothing is on its way, and what is at rest is what is stored."""
    assert not groups._unstored
    for group in groups._groups.values():
        assert not group.returning
        if group.stored is not None and not group.is_rebalancing:
            assert as_it_is(group) == group.stored


def stored_state(shard: GroupShard) -> dict[str, Any]:
    return {
        "classic": stored_classic_groups(shard._classic),
        "consumer": dict(shard._consumer._groups),
        "offsets": contents(shard._offsets),
    }


class Shadow:
    """A shard that is told what is in the log, and nothing else."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._read = 0

    def check(self, live: GroupShard, log: list[Record]) -> None:
        """What the log says is what the shard that wrote it takes for stored."""
        for record in log[self._read :]:
            self._shard.replay(*record)
        self._read = len(log)
        assert stored_state(self._shard) == stored_state(live)
        check_classic_groups(live._classic)
