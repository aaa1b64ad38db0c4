"""Three logs of one partition, with elections, kills and power cuts, and no broker around them.

What a leader and a follower do to their logs is done here in the same order, without the network:
so that very many histories can be tried, and each of them looked at to the last byte.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.partition_log import read_batches, verified

from moldau.config.values.topic import TopicConfig
from moldau.log import AppendOrigin, PartitionLog
from moldau.log.partition.producer_state import ProducerState, apply_batch
from moldau.log.recovery.opening import load_log
from moldau.model import TopicPartition
from moldau.records.batch import iter_headers
from moldau.records.builder import build_batch
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.record import Record
from moldau.replication.followers.divergence import offset_to_cut_at
from moldau.testing.disk import MemoryDisk

POINT_BEYOND = "recovery point or high watermark beyond the end of the log"
WRONG_PLACE = "index leads to another batch"
WRONG_EPOCH = "epoch of a batch is not remembered"
WRONG_TIME = "time index leads behind a record"
WRONG_TRANSACTIONS = "aborted transactions are not those in the log"
WRONG_PRODUCERS = "producers are not those in the log"
UNCOMMITTED = "in-sync replica without what is committed"
UNEQUAL = "replicas do not become equal"
UNREADABLE = "log cannot be read, or not be written"

DIRECTORY = "/data/t-0"
PARTITION = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000
PLAIN, TRANSACTIONAL = 1, 2


class BrokenPromiseError(Exception):
    """Its text is the name of an invariant."""


def promise(kept: bool, name: str) -> None:
    if not kept:
        raise BrokenPromiseError(name)


@dataclass
class Checkpoints:
    """What a log manager would have written down."""

    recovery_point: int = 0
    log_start: int = 0
    high_watermark: int = 0


class ReplicaLog:
    """One replica: a log on a disk that may lose what was not synced."""

    def __init__(self, seed: int, config: TopicConfig) -> None:
        self.config = config
        self.disk = MemoryDisk(random.Random(seed))
        self.disk.makedirs(DIRECTORY)
        self.disk.sync_dir("/")
        self.disk.sync_dir("/data")
        self.checkpoints = Checkpoints()
        self.log: PartitionLog
        self.high_watermark = 0
        self.open()

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    def open(self) -> None:
        written = self.checkpoints
        self.log = load_log(
            self.disk,
            DIRECTORY,
            PARTITION,
            self.config,
            now_ms=NOW_MS,
            recovery_point=written.recovery_point,
            log_start_offset=written.log_start,
        )
        self.high_watermark = max(
            self.log.log_start_offset, min(written.high_watermark, self.log.log_end_offset)
        )

    def checkpoint(self) -> None:
        self.checkpoints = Checkpoints(
            self.log.recovery_point, self.log.log_start_offset, self.high_watermark
        )

    def kill(self) -> None:
        self.log.close()
        self.open()

    def power_cut(self) -> None:
        self.log.close()
        self.disk = self.disk.power_cut()
        self.open()

    def cut(self, offset: int) -> None:
        """Truncate, durably, before anything else happens."""
        self.begin_cut(offset)
        if self.log.truncate_to(offset, NOW_MS):
            self.log.durability.flush(NOW_MS)
        self.high_watermark = min(self.high_watermark, self.end)
        self.checkpoint()

    def begin_cut(self, offset: int) -> None:
        self.log.durability.begin_truncation(offset)
        self.checkpoint()
        self.log.durability.end_truncation()

    def check(self) -> None:
        """What is beside the batches has to say the same as they do."""
        log = self.log
        promise(max(log.recovery_point, self.high_watermark) <= self.end, POINT_BEYOND)
        data = read_batches(log)
        state = ProducerState()
        aborted = []
        for position, header in iter_headers(data, allow_partial_tail=False):
            found = log.read(header.last_offset, 1, log.log_end_offset)
            promise(found is not None and found.size == header.size, WRONG_PLACE)
            assert found is not None
            base = next(iter_headers(found.read()))[1].base_offset
            promise(base == header.base_offset, WRONG_PLACE)
            epoch = log.leader_epochs.epoch_for_offset(header.base_offset)
            promise(epoch == header.partition_leader_epoch, WRONG_EPOCH)
            at = log.offset_for_timestamp(header.max_timestamp)
            promise(at is not None and at.offset <= header.last_offset, WRONG_TIME)
            if header.has_producer_id:
                batch = memoryview(data)[position : position + header.size]
                done = apply_batch(state, header, batch)
                if done is not None:
                    aborted.append((done.producer_id, done.first_offset))
        promise(log.aborted_transactions(0, log.log_end_offset) == aborted, WRONG_TRANSACTIONS)
        promise(_sequences(log.producers) == _sequences(state), WRONG_PRODUCERS)


def _sequences(state: ProducerState) -> set[tuple[int, int, int]]:
    return {
        (entry.producer_id, entry.last_sequence, entry.txn_first_offset)
        for entry in state.producers.values()
    }


class ReplicaHistory:
    """What happens to three replicas. Only those in sync are elected, and only one at a time loses
    its power, until it has caught up.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        config = TopicConfig(
            segment_bytes=self.random.choice([600, 2000, 1 << 20]),
            index_interval_bytes=self.random.choice([0, 100, 400]),
        )
        self.replicas = [ReplicaLog(seed * 3 + number, config) for number in range(3)]
        self.isr = {0, 1, 2}
        self.leader = 0
        self.epoch = 0
        self.positions: dict[int, int] = {}
        self.committed = b""
        self.committed_end = 0
        self.elect(0)

    def elect(self, number: int) -> None:
        self.epoch += 1
        self.leader = number
        self.positions = {}
        log = self.replicas[number].log
        log.assign_epoch_start_offset(self.epoch, log.log_end_offset)
        self.commit()

    # Steps ---------------------------------------------------------------------------------------

    def step(self) -> None:
        draw = self.random.random()
        followers = [number for number in range(3) if number != self.leader]
        replica = self.replicas[self.random.randrange(3)]
        if draw < 0.30:
            self.append()
        elif draw < 0.65:
            self.fetch(self.random.choice(followers), self.random.choice([1, 500, 1 << 20]))
        elif draw < 0.72:
            self.elect(self.random.choice(sorted(self.isr)))
        elif draw < 0.80:
            replica.log.durability.flush(NOW_MS)
        elif draw < 0.86:
            replica.checkpoint()
        elif draw < 0.90:
            self.go_down(self.random.randrange(3), power_cut=False)
        elif draw < 0.95:
            self.go_down(self.random.randrange(3), power_cut=True)
        else:
            self.join()
        self.check()

    def append(self) -> None:
        log = self.replicas[self.leader].log
        for _ in range(self.random.randint(1, 4)):
            producer = self.random.choice([-1, PLAIN, TRANSACTIONAL, 0])
            if producer == 0:
                marker = build_end_txn_marker(
                    self.random.choice([ControlType.COMMIT, ControlType.ABORT]),
                    producer_id=TRANSACTIONAL,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp=self.now(),
                )
                log.append_as_leader(
                    memoryview(marker), self.epoch, NOW_MS, origin=AppendOrigin.COORDINATOR
                )
                continue
            known = log.producers.producers.get(producer)
            batch = build_batch(
                [
                    Record(0, self.now(), b"k", self.random.randbytes(self.random.randint(0, 90)))
                    for _ in range(self.random.randint(1, 3))
                ],
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=-1
                if producer < 0
                else 0
                if known is None
                else known.last_sequence + 1,
                transactional=producer == TRANSACTIONAL,
            )
            if producer == TRANSACTIONAL:
                verified(log, producer)
            log.append_as_leader(memoryview(batch), self.epoch, NOW_MS)
        self.commit()

    def now(self) -> int:
        return NOW_MS + self.random.randint(0, 1000)

    def fetch(self, number: int, max_bytes: int) -> bool:
        """One fetch of a follower; returns whether anything came of it."""
        leader, follower = self.replicas[self.leader], self.replicas[number]
        log, own = leader.log, follower.log
        last = own.leader_epochs.latest_epoch
        if last >= 0:
            epoch, end = log.end_offset_for_epoch(last)
            if end < 0:
                return False  # the leader does not know where to cut: both wait
            if epoch < last or end < own.log_end_offset:
                offset = self.where_to_cut(follower, epoch, end)
                if self.may_lose_power(number) and self.random.random() < 0.2:
                    follower.begin_cut(offset)
                    follower.log.truncate_to(offset, NOW_MS)
                    self.go_down(number, power_cut=True)  # in the middle of it
                else:
                    follower.cut(offset)
                return True
        found = log.read(own.log_end_offset, max_bytes, log.log_end_offset)
        self.positions[number] = own.log_end_offset
        if found is not None:
            own.append_as_follower(memoryview(bytearray(found.read())), NOW_MS, self.epoch)
        follower.high_watermark = max(
            follower.high_watermark, min(leader.high_watermark, follower.end)
        )
        self.commit()
        return found is not None

    def where_to_cut(self, follower: ReplicaLog, epoch: int, end: int) -> int:
        return offset_to_cut_at(follower.log.leader_epochs, follower.end, epoch, end)

    def commit(self) -> None:
        leader = self.replicas[self.leader]
        ends = [self.positions.get(number, -1) for number in self.isr - {self.leader}]
        end = min([leader.end, *ends])
        if end > leader.high_watermark:
            leader.high_watermark = end
        if leader.high_watermark > self.committed_end:
            self.committed_end = leader.high_watermark
            self.committed = _below(leader.log, self.committed_end)

    def may_lose_power(self, number: int) -> bool:
        return len(self.isr) == 3 or number not in self.isr

    def go_down(self, number: int, *, power_cut: bool) -> None:
        """A broker ends and comes back; those who are left elect another leader meanwhile."""
        alone = self.isr == {number}
        if power_cut and not self.may_lose_power(number):
            return
        replica = self.replicas[number]
        if power_cut:
            replica.power_cut()
        else:
            replica.kill()
        if not alone:
            self.isr.discard(number)
        self.positions.pop(number, None)
        if number == self.leader:
            self.elect(self.random.choice(sorted(self.isr)))
        else:
            self.commit()

    def join(self) -> None:
        leader = self.replicas[self.leader]
        for number in range(3):
            if self.positions.get(number, -1) >= max(leader.high_watermark, self.committed_end):
                self.isr.add(number)

    def check(self) -> None:
        for number in self.isr:
            has = _below(self.replicas[number].log, self.committed_end)
            promise(has == self.committed, UNCOMMITTED)
        self.random.choice(self.replicas).check()

    def converge(self) -> None:
        """A last election; the leader writes nothing, and everybody catches up."""
        self.elect(self.random.choice(sorted(self.isr)))
        leader = self.replicas[self.leader]
        for number in range(3):
            if number != self.leader:
                for _ in range(200):
                    if not self.fetch(number, 1 << 20):
                        break
                promise(self.replicas[number].end == leader.end, UNEQUAL)
        data = read_batches(leader.log)
        for replica in self.replicas:
            replica.check()
            promise(read_batches(replica.log) == data, UNEQUAL)
        promise(data.startswith(self.committed), UNCOMMITTED)


def _below(log: PartitionLog, offset: int) -> bytes:
    """The batches before an offset, which is the end of one."""
    data = read_batches(log)
    size = 0
    for position, header in iter_headers(data):
        if header.next_offset > offset:
            break
        size = position + header.size
    return data[:size]


def live(seed: int, history: type[ReplicaHistory] = ReplicaHistory, steps: int = 70) -> None:
    """One history to its end; BrokenPromiseError if something was wrong."""
    try:
        _live(history(seed), steps)
    except BrokenPromiseError:
        raise
    except Exception as error:
        raise BrokenPromiseError(UNREADABLE) from error


def _live(life: ReplicaHistory, steps: int) -> None:
    for _ in range(steps):
        life.step()
    life.converge()
    for replica in life.replicas:
        replica.kill()
        replica.check()
