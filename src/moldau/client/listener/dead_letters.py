"""Reading dead-letter topics, and sending their records back to where they came from.

What has been sent back is committed for a group of its own, records ahead of the committed offset
in the commit's metadata: a second run goes on where the first one ended, whatever was filtered out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.types import raise_first_error
from moldau.client.cluster import Cluster
from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings
from moldau.client.large.chunking import Chunking
from moldau.client.listener.acks import AckTracker
from moldau.client.listener.finished import read_finished
from moldau.client.listener.headers import (
    REDRIVEN_FROM,
    Failure,
    Header,
    own_headers,
    read_failure,
)
from moldau.client.listener.recovery import SendRecord
from moldau.client.offsets import OffsetSpec
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.records.consumer_record import ConsumerRecord

REDRIVE_GROUP: Final = "moldau-redrive"
_COMMIT_EVERY: Final = 1.0


class DeadLetter(NamedTuple):
    partition: TopicPartition
    record: ConsumerRecord
    failure: Failure | None
    """None for a record that no listener put there."""
    redriven: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters are meant; all by default."""

    source: str | None = None
    group: str | None = None
    exception: str | None = None
    """A part of the exception's name or message."""
    since_ms: int | None = None
    records: frozenset[tuple[int, int]] = frozenset()
    """Partition and offset."""

    def __call__(self, letter: DeadLetter) -> bool:
        record, failure = letter.record, letter.failure
        if self.records and (record.partition, record.offset) not in self.records:
            return False
        if failure is None:
            return self == Filter(records=self.records)
        return (
            (self.source is None or failure.source.topic == self.source)
            and (self.group is None or failure.group == self.group)
            and (
                self.exception is None
                or self.exception in failure.exception
                or self.exception in failure.message
            )
            and (self.since_ms is None or failure.failed_at >= self.since_ms)
        )


class DeadLetters:
    """The dead letters of one topic, as they are now."""

    def __init__(
        self, cluster: Cluster, admin: AsyncAdmin, topic: str, group: str = REDRIVE_GROUP
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._topic = topic
        self._group = group
        self.first: dict[TopicPartition, int] = {}
        self.end: dict[TopicPartition, int] = {}
        self.committed: Mapping[TopicPartition, OffsetAndMetadata] = {}

    async def load(self) -> None:
        """Learn where the topic begins and ends, and what was sent back before."""
        info = await self._cluster.topic(self._topic)
        partitions = [TopicPartition(self._topic, number) for number in info.partitions]
        self.first = await self._offsets(partitions, OffsetSpec.EARLIEST)
        self.end = await self._offsets(partitions, OffsetSpec.LATEST)
        committed = await self._admin.list_group_offsets(self._group)
        self.committed = {p: committed[p] for p in partitions if p in committed}

    @property
    def count(self) -> int:
        return sum(self.end.values()) - sum(self.first.values())

    @property
    def left(self) -> int:
        """Records that were not sent back, as far as offsets tell."""
        left = 0
        for partition, end in self.end.items():
            committed = self.committed.get(partition)
            start = max(self.first[partition], committed.offset if committed is not None else 0)
            left += max(0, end - start) - len(read_finished(committed))
        return left

    async def read(self) -> AsyncGenerator[DeadLetter, None]:
        """All of them, in the order of each partition; large ones whole."""
        now = self._cluster.machine.clock.monotonic
        whole = Chunking(on_damage="skip").reader()
        done = {p: read_finished(committed) for p, committed in self.committed.items()}
        settings = ReaderSettings(out_of_range="earliest", read_committed=True)
        async with PartitionReader(
            self._cluster, self.first, until=self.end, settings=settings
        ) as reader:
            async for partition, records, _ in reader:
                committed = self.committed.get(partition)
                before = committed.offset if committed is not None else 0
                for record in whole.read(partition, records, now()):
                    redriven = record.offset < before or record.offset in done.get(partition, ())
                    failure = read_failure(record.headers)
                    yield DeadLetter(partition, record, failure, redriven)

    async def redrive(
        self,
        wanted: Callable[[DeadLetter], bool],
        send: SendRecord,
        *,
        limit: int | None = None,
        progress: Callable[[DeadLetter], None] = lambda _: None,
    ) -> int:
        """Send what is wanted, and was not sent before, back to its topics; returns how many."""
        trackers = {
            partition: AckTracker(read_finished(self.committed.get(partition)))
            for partition in self.end
        }
        count = 0
        now = self._cluster.machine.clock.monotonic
        committed_at = now()
        try:
            async with aclosing(self.read()) as letters:
                async for letter in letters:
                    tracker = trackers[letter.partition]
                    if not tracker.delivered(letter.record.offset):
                        continue
                    if letter.redriven:
                        tracker.finished(letter.record.offset)
                        continue
                    if letter.failure is None or not wanted(letter):
                        continue
                    if limit is not None and count >= limit:
                        break
                    await self._send_back(letter, letter.failure, send)
                    tracker.finished(letter.record.offset)
                    count += 1
                    progress(letter)
                    if now() - committed_at > _COMMIT_EVERY:
                        await self._commit(trackers)
                        committed_at = now()
        finally:
            if count:
                await self._commit(trackers)
        return count

    async def _send_back(self, letter: DeadLetter, failure: Failure, send: SendRecord) -> None:
        record = letter.record
        own = [header for header in own_headers(record.headers) if header[0] != REDRIVEN_FROM]
        headers: list[Header] = [
            *own,
            (REDRIVEN_FROM, f"{letter.partition}@{record.offset}".encode()),
        ]
        # A new timestamp: with the old one, retention might take the record at once.
        await send(failure.source.topic, record.key, record.value, headers, -1)

    async def _commit(self, trackers: Mapping[TopicPartition, AckTracker]) -> None:
        offsets = {p: tracker.committable for p, tracker in trackers.items()}
        raise_first_error(
            await self._admin.alter_group_offsets(
                self._group, {p: offset for p, offset in offsets.items() if offset is not None}
            )
        )

    async def _offsets(
        self, partitions: list[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        offsets = await self._admin.list_offsets(dict.fromkeys(partitions, spec))
        return {partition: at.offset for partition, at in offsets.items()}


async def find_dead_letter_topics(admin: AsyncAdmin, suffix: str) -> list[str]:
    return [topic.name for topic in await admin.list_topics() if topic.name.endswith(suffix)]
