"""What a follower does to its log besides appending: cut it, begin it anew, make it durable.

Each takes as long as disks take. Whoever starts one fetches nothing for the partition until it is
over, and the partition changes its role only then (``ReplicaFetchers.release``).
"""

from __future__ import annotations

import logging

from moldau.errors import ErrorCode, KafkaError
from moldau.log.partition.leader_epochs import UNDEFINED_EPOCH
from moldau.replication.followers.divergence import offset_to_cut_at
from moldau.replication.followers.followed import FollowedPartition
from moldau.replication.followers.ports import FollowerLogs
from moldau.replication.followers.questions import LeaderQuestions

log = logging.getLogger(__name__)


class LogWork:
    def __init__(self, logs: FollowerLogs) -> None:
        self._logs = logs

    async def cut(self, followed: FollowedPartition, epoch: int, end_offset: int) -> None:
        """The leader says that ``epoch``, its largest up to our last one, ends at that offset."""
        partition = followed.partition
        own = partition.log
        last = own.leader_epochs.latest_epoch
        offset = offset_to_cut_at(own.leader_epochs, own.log_end_offset, epoch, end_offset)
        level = logging.WARNING if offset < partition.high_watermark else logging.INFO
        log.log(
            level,
            "%s is cut from %d to %d (high watermark %d): its last epoch is %d, and with the leader"
            " of epoch %d epoch %d ends at %d",
            followed.key,
            own.log_end_offset,
            offset,
            partition.high_watermark,
            last,
            followed.leader_epoch,
            epoch,
            end_offset,
        )
        followed.is_cutting = True
        try:
            await self._logs.truncate_to(own, offset, followed.is_wanted)
            if partition.truncated():
                await self._logs.checkpoint_high_watermarks()
        finally:
            partition.truncated()
            followed.is_cutting = False

    async def begin_at(self, followed: FollowedPartition, offset: int) -> None:
        """Drop everything: the leader has nothing before ``offset``."""
        partition = followed.partition
        own = partition.log
        log.info(
            "%s has [%d, %d) and begins anew at %d, where its leader's begins",
            followed.key,
            own.log_start_offset,
            own.log_end_offset,
            offset,
        )
        followed.is_cutting = True
        try:
            await self._logs.truncate_fully_and_start_at(own, offset, followed.is_wanted)
            if partition.truncated():
                await self._logs.checkpoint_high_watermarks()
        finally:
            partition.truncated()
            followed.is_cutting = False

    async def begin_with(
        self, followed: FollowedPartition, records: bytes, offset: int, now_ms: int
    ) -> None:
        """The leader's log starts inside of a batch, and so does ours, which is empty: the batch
        comes whole and begins at ``offset``. It has to be taken now: nobody could ask for it.
        """
        await self.begin_at(followed, offset)
        if followed.is_wanted():
            view = memoryview(records)
            followed.partition.append_as_follower(view, followed.leader_epoch, now_ms)

    async def find_place(self, followed: FollowedPartition, leader: LeaderQuestions) -> None:
        """The leader has nothing at the end of our log. Where its log begins later, ours begins
        anew; else ours is cut where the two part, by epoch if they have any to compare, and at the
        end of the leader's log if not.
        """
        partition = followed.partition
        start = await leader.log_start(followed.key, followed.leader_epoch)
        own = partition.log
        if start > own.log_end_offset:
            await self.begin_at(followed, start)
            return
        last = own.leader_epochs.latest_epoch
        if last >= 0:
            epoch, end = await leader.epoch_end(followed.key, followed.leader_epoch, last)
            if end >= 0:  # else the leader knows no epoch that would tell
                if followed.is_wanted() and (epoch < last or end < own.log_end_offset):
                    await self.cut(followed, epoch, end)
                return
        end = await leader.log_end(followed.key, followed.leader_epoch)
        if end >= own.log_end_offset:
            # By now it has; or it will refuse again, and should not be asked all the time.
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if followed.is_wanted():
            await self.cut(followed, UNDEFINED_EPOCH, end)

    async def flush(self, followed: FollowedPartition) -> None:
        """The leader takes what is asked for next as a word that all before it is stored."""
        await self._logs.flush(followed.partition.log)

    async def make_durable(self, followed: FollowedPartition) -> None:
        """There is a gap that compaction left when the topic was compacted. After a crash only the
        recovery point tells it from lost records.
        """
        await self._logs.make_durable(followed.partition.log)
