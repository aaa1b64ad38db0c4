"""Committing: which offsets, as whom, how often, and what an error means.

Positions may be committed once the user has come back for more: what the last poll gave is done by
then. So automatic commits are made where a poll begins, and before it lets partitions go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.consumer.handover import Handover
from moldau.client.consumer.membership.actions import Identity
from moldau.client.consumer.membership.driver import GroupDriver
from moldau.client.consumer.offset_requests import NO_MEMBER, commit_offsets, fetch_committed
from moldau.client.consumer.position import NO_EPOCH, Position
from moldau.client.consumer.subscription import SubscriptionState
from moldau.client.consumer.tasks import Tasks
from moldau.client.coordinators import Coordinator
from moldau.client.errors import CommitFailedError, TimedOutError, UnknownTopicError
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import OffsetAndMetadata, TopicPartition

logger: Final = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, KafkaError | None], object]

_FENCED: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
_GOES_AWAY: Final = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
}


class Committer:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        handover: Handover,
        coordinator: Coordinator,
        driver: GroupDriver,
        committed: Callable[[Offsets], None],
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._subscription = subscription
        self._handover = handover
        self._coordinator = coordinator
        self._driver = driver
        self._on_committed = committed
        self._changed = changed
        self._tasks = Tasks()
        self.outcomes: deque[Callable[[], object]] = deque()
        """Callbacks of finished commits, to be called by the user's next poll."""
        self._auto_at = 0.0
        self._auto_running = False
        self.committable: Callable[[Offsets], dict[TopicPartition, OffsetAndMetadata]] = dict
        """What may be committed instead of some offsets: large messages are not cut in two."""

    # -- which offsets

    def store(self, offsets: Offsets) -> None:
        states = [self._subscription.state(partition) for partition in offsets]
        for state, offset in zip(states, offsets.values(), strict=True):
            state.stored = offset

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions, or what was stored instead."""
        states = self._subscription.partitions
        if not self._settings.enable_auto_offset_store:
            return {key: state.stored for key, state in states.items() if state.stored is not None}
        return {
            partition: _committable(position)
            for partition, state in states.items()
            if (position := self._handover.reached(state)) is not None
        }

    # -- committing

    async def commit(self, offsets: Offsets, within: float) -> None:
        """Try again until it is done, or cannot be done."""
        if not offsets:
            return
        backoff = self._cluster.backoff(within)
        safe = self.committable(offsets)
        while True:
            try:
                async with asyncio.timeout(backoff.remaining):
                    await self._attempt(safe)
                break
            except TimeoutError:
                raise TimedOutError(f"The offsets were not committed in {within:g} s") from None
            except KafkaError as error:
                if not (error.retriable or error.code in _GOES_AWAY):
                    raise
                await backoff.pause(error)
        self._on_committed(offsets)

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """One attempt, in the background."""
        # Before the task runs, the consumer may have moved, and know less about its messages.
        self._tasks.start(self._commit_once(offsets, self.committable(offsets), callback))

    def auto_commit_is_due(self, now: float) -> bool:
        return self._settings.enable_auto_commit and now >= self._auto_at and not self._auto_running

    def auto_commit(self, now: float) -> None:
        """Commit in the background, when it is time to."""
        if not self.auto_commit_is_due(now):
            return
        self._auto_at = now + self._settings.auto_commit_interval_ms / 1000
        offsets = self.to_commit()
        if offsets:
            self._auto_running = True
            self._tasks.start(self._auto_commit(offsets, self.committable(offsets)))

    async def commit_before_leaving(self, within: float) -> None:
        """Before partitions are given away: with automatic commits, as far as that goes."""
        if not self._settings.enable_auto_commit:
            return
        offsets = self.to_commit()
        try:
            await self.commit(offsets, within)
        except KafkaError as error:
            logger.warning(
                "group %s: the last offsets of %d partitions were not committed: %s",
                self._settings.group_id,
                len(offsets),
                error.message,
            )

    async def committed(
        self, partitions: Collection[TopicPartition], within: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        backoff = self._cluster.backoff(within)
        while True:
            try:
                async with asyncio.timeout(backoff.remaining):
                    return await self.committed_now(partitions)
            except TimeoutError:
                raise TimedOutError(f"No committed offsets after {within:g} s") from None
            except KafkaError as error:
                if not (error.retriable or error.code in _GOES_AWAY):
                    raise
                await backoff.pause(error)

    async def committed_now(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """One attempt."""
        consumer_protocol = self._settings.group_protocol == "consumer"
        member = self._driver.member
        identity = member.identity if consumer_protocol and member.joined else NO_MEMBER
        return await fetch_committed(self._cluster, self._coordinator, identity, partitions)

    async def close(self, within: float) -> None:
        await self._tasks.wait(within)
        await self._tasks.cancel()

    # -- parts

    def _identity(self) -> Identity:
        if not self._subscription.uses_group:
            return NO_MEMBER
        member = self._driver.member
        if not member.joined:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "This consumer is not, or no longer, a member of its group: the partitions may be "
                "another member's. It took longer than max.poll.interval.ms between polls, or has "
                "not polled yet",
            )
        return member.identity

    async def _attempt(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        refused = await commit_offsets(
            self._cluster,
            self._coordinator,
            self._identity(),
            self._settings.group_instance_id,
            offsets,
        )
        for partition, error in refused.items():
            raise _in_words(partition, error)

    async def _commit_once(
        self,
        offsets: Offsets,
        safe: dict[TopicPartition, OffsetAndMetadata],
        callback: CommitCallback | None,
    ) -> None:
        failure: KafkaError | None = None
        try:
            await self._attempt(safe)
            self._on_committed(offsets)
        except KafkaError as error:
            failure = error
            if callback is None:
                logger.warning(
                    "group %s: offsets were not committed: %s",
                    self._settings.group_id,
                    error.message,
                )
        if callback is not None:
            self.outcomes.append(lambda: callback(offsets, failure))
            self._changed()

    async def _auto_commit(
        self, offsets: Offsets, safe: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        try:
            await self._attempt(safe)
            self._on_committed(offsets)
        except KafkaError as error:
            logger.info(
                "group %s: the automatic commit failed, the next one will do: %s",
                self._settings.group_id,
                error.message,
            )
            self._auto_at = 0.0 if error.retriable else self._auto_at
        finally:
            self._auto_running = False


def _committable(position: Position) -> OffsetAndMetadata:
    epoch = None if position.offset_epoch == NO_EPOCH else position.offset_epoch
    return OffsetAndMetadata(position.offset, "", epoch)


def _in_words(partition: TopicPartition, error: KafkaError) -> KafkaError:
    if error.code in _FENCED:
        return CommitFailedError(
            error.code,
            f"{partition}: the group has gone on without this member, and the partition may be "
            f"another's ({error.code.name})",
        )
    if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopicError(*partition)
    return type(error)(error.code, f"{partition}: {error.message}")
