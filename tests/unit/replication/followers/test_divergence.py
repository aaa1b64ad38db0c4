"""Where a follower cuts, over all histories that elections can make of three logs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from moldau.log.partition.leader_epochs import EpochEntry, LeaderEpochs
from moldau.replication.followers.divergence import offset_to_cut_at


@pytest.mark.parametrize(
    ("own", "end", "leader", "cut"),
    [
        # The leader has less of the same epoch.
        ([(1, 0)], 10, (1, 7), 7),
        # The leader's epoch ended before ours did.
        ([(1, 0), (2, 5)], 9, (1, 8), 5),
        ([(1, 0), (3, 8)], 9, (1, 5), 5),
        # We do not know the leader's epoch: back to the end of the one before it.
        ([(1, 0), (3, 6)], 9, (2, 8), 6),
        # All that we have is of later epochs.
        ([(4, 20)], 30, (2, 25), 20),
        # We led and wrote nothing: the log stays, its last epoch goes.
        ([(1, 0), (5, 9)], 9, (4, 9), 9),
        # The leader's epoch is later than all of ours, which it never says; nothing is beyond it.
        ([(1, 0)], 5, (3, 4), 4),
        # No epochs at all, of logs from before they were written.
        ([], 10, (3, 8), 8),
        ([(1, 0)], 10, (-1, 4), 4),
        ([(1, 0)], 10, (1, -1), 10),
    ],
)
def test_where_to_cut(
    own: list[tuple[int, int]], end: int, leader: tuple[int, int], cut: int
) -> None:
    epochs = LeaderEpochs([EpochEntry(*entry) for entry in own])
    assert offset_to_cut_at(epochs, end, *leader) == cut


@dataclass
class Replica:
    """A log as a list of (epoch, value), with its epochs and what it takes for committed."""

    records: list[tuple[int, int]] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    high_watermark: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, epoch: int, value: int) -> None:
        self.epochs.assign(epoch, self.end)
        self.records.append((epoch, value))

    def cut(self, offset: int) -> None:
        del self.records[offset:]
        self.epochs.truncate_from_end(self.end)
        self.high_watermark = min(self.high_watermark, self.end)


class History:
    """Elections, appends and fetches in any order; only in-sync replicas are elected."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.replicas = [Replica() for _ in range(3)]
        self.isr = {0, 1, 2}
        self.epoch = 0
        self.leader = 0
        self.value = 0
        self.committed: list[tuple[int, int]] = []
        self.positions: dict[int, int] = {}
        self.elect(0)

    def elect(self, number: int) -> None:
        self.epoch += 1
        self.leader = number
        self.positions = {}
        leader = self.replicas[number]
        leader.epochs.assign(self.epoch, leader.end)

    def fetch(self, number: int, most: int) -> bool:
        """One fetch of a follower; returns whether it had to cut."""
        leader, follower = self.replicas[self.leader], self.replicas[number]
        last = follower.epochs.latest_epoch
        if last >= 0:
            epoch, end = leader.epochs.end_offset_for(last, leader.end)
            if epoch < last or end < follower.end:
                cut = offset_to_cut_at(follower.epochs, follower.end, epoch, end)
                before = follower.end, follower.epochs.latest_epoch
                follower.cut(cut)
                assert (follower.end, follower.epochs.latest_epoch) != before
                return True
        assert follower.records == leader.records[: follower.end]
        self.positions[number] = follower.end
        for epoch, value in leader.records[follower.end : follower.end + most]:
            follower.append(epoch, value)
        follower.high_watermark = max(
            follower.high_watermark, min(leader.high_watermark, follower.end)
        )
        self.commit()
        return False

    def commit(self) -> None:
        leader = self.replicas[self.leader]
        ends = [self.positions.get(number, -1) for number in self.isr - {self.leader}]
        leader.high_watermark = max(leader.high_watermark, min([leader.end, *ends]))
        committed = leader.records[: leader.high_watermark]
        if len(committed) > len(self.committed):
            assert committed[: len(self.committed)] == self.committed
            self.committed = committed

    def step(self) -> None:
        draw = self.random.random()
        followers = [number for number in range(3) if number != self.leader]
        if draw < 0.35:
            for _ in range(self.random.randint(1, 3)):
                self.value += 1
                self.replicas[self.leader].append(self.epoch, self.value)
            self.commit()
        elif draw < 0.75:
            self.fetch(self.random.choice(followers), self.random.randint(0, 4))
        elif draw < 0.85:
            self.elect(self.random.choice(sorted(self.isr)))
        elif draw < 0.92 and len(self.isr) > 1:
            self.isr.discard(self.random.choice(sorted(self.isr - {self.leader})))
            self.commit()
        else:
            leader = self.replicas[self.leader]
            for number in followers:
                if self.positions.get(number, -1) >= leader.high_watermark:
                    self.isr.add(number)
        self.check()

    def check(self) -> None:
        """Nothing committed is gone from where the next leader comes from."""
        for number in self.isr:
            records = self.replicas[number].records
            assert records[: len(self.committed)] == self.committed

    def converge(self) -> None:
        for number in range(3):
            rounds = 0
            while number != self.leader and (
                self.fetch(number, 1000)
                or self.replicas[number].end < self.replicas[self.leader].end
            ):
                rounds += 1
                assert rounds <= 2 * self.epoch + 2


@pytest.mark.parametrize("seed", range(300))
def test_logs_converge_and_keep_what_is_committed(seed: int) -> None:
    history = History(seed)
    for _ in range(60):
        history.step()
    history.converge()
    history.check()
    logs = [replica.records for replica in history.replicas]
    assert logs[0] == logs[1] == logs[2]
    assert logs[0][: len(history.committed)] == history.committed


def test_cutting_at_the_high_watermark_loses_what_is_committed() -> None:
    """The fault that leader epochs were made for (KIP-101)."""

    def lose(seed: int) -> bool:
        history = History(seed)

        def elect(number: int) -> None:
            History.elect(history, number)
            for other, replica in enumerate(history.replicas):
                if other != number:
                    replica.cut(replica.high_watermark)

        history.elect = elect  # type: ignore[method-assign]
        try:
            for _ in range(60):
                history.step()
        except AssertionError:
            return True
        return False

    assert any(lose(seed) for seed in range(30))
