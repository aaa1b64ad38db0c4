"""What runs behind a consumer: its parts, wired together, and the loop that keeps them going.

Each part has a ``step`` that starts whatever is to be done now and does not wait for it. Whatever
changes something calls ``kick``; then all parts get their turn, and a poll that waits looks again.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.consumer.assignors import make_assignors
from moldau.client.consumer.committer import Committer, Offsets
from moldau.client.consumer.fetch.buffer import FetchBuffer
from moldau.client.consumer.fetch.fetcher import Fetcher
from moldau.client.consumer.handover import Handover
from moldau.client.consumer.membership.classic import ClassicMember, ClassicOptions
from moldau.client.consumer.membership.consumer_protocol import (
    ConsumerOptions,
    ConsumerProtocolMember,
)
from moldau.client.consumer.membership.driver import AnyMember, GroupDriver
from moldau.client.consumer.missing_topics import MissingTopics
from moldau.client.consumer.partition_state import BufferSpace
from moldau.client.consumer.position_lookups import PositionLookups
from moldau.client.consumer.reset import ResetPolicy
from moldau.client.consumer.subscription import SubscriptionKind, SubscriptionState
from moldau.client.coordinators import Coordinator
from moldau.client.errors import unforeseen
from moldau.client.metadata import ClusterMetadata
from moldau.client.settings import ConsumerSettings
from moldau.config.option import ConfigError
from moldau.errors import KafkaError
from moldau.machine import Machine

logger: Final = logging.getLogger(__name__)

_SHORTEST_NAP: Final = 0.001
_AFTER_A_FAULT: Final = 1.0


class ConsumerCore:
    def __init__(
        self,
        settings: ConsumerSettings,
        on_committed: Callable[[Offsets], None],
        machine: Machine | None = None,
    ) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, machine)
        self.machine = self.cluster.machine
        self.space = BufferSpace(settings.queued_max_messages_kbytes * 1024)
        self.subscription = SubscriptionState(self.space)
        self.handover = Handover(self.space)
        self.buffer = FetchBuffer(self.space, self.handover)
        self.news = asyncio.Event()
        """Something has changed since it was last cleared: worth another look for a poll."""
        self.driver: GroupDriver | None = None
        self.committer: Committer | None = None
        try:
            policy = ResetPolicy.parse(settings.auto_offset_reset)
            if settings.group_id is not None:
                self._make_group(settings.group_id, on_committed)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self.lookups = PositionLookups(
            self.cluster,
            settings,
            self.subscription,
            self.committer,
            self.kick,
            self.note_failure,
        )
        self.fetcher = Fetcher(
            self.cluster,
            settings,
            self.subscription,
            self.space,
            self.buffer,
            policy,
            self.kick,
            self.note_failure,
        )
        self._missing = MissingTopics(self.cluster, settings, self.note_failure)
        self.cluster.allow_auto_creation = settings.allow_auto_create_topics
        self.cluster.topics_of_interest = self._topics_of_interest
        self.cluster.on_update.append(self._metadata_changed)
        self._kicked = asyncio.Event()
        self._engine: asyncio.Task[None] | None = None
        self._failure: KafkaError | None = None
        self._polled = False
        self._changed_since_poll = True
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- what the user does

    def start(self) -> None:
        """Begin to work in the background; the first call decides the event loop."""
        if self._engine is None:
            self._loop = asyncio.get_running_loop()
            self._engine = asyncio.create_task(self._run(), name="moldau consumer")
            self.cluster.request_update()

    def poll_started(self) -> None:
        self._polled = True
        self.start()
        changed, self._changed_since_poll = self._changed_since_poll, False
        if self.driver is not None and self.subscription.uses_group:
            self.driver.member.poll_started()
            if changed:
                self._update_membership()
            elif not self.driver.member.is_content:
                self.kick()  # it may have waited for this poll

    def poll_ended(self) -> None:
        if self.driver is not None:
            self.driver.member.poll_ended(self._now())

    def subscription_changed(self) -> None:
        """Topics or partitions to read are others now."""
        self._changed_since_poll = True
        if self._engine is not None:
            self.cluster.request_update()
            self.kick()

    def enforce_rebalance(self, reason: str) -> None:
        """Join the group anew, though nothing has changed here."""
        if self.driver is None:
            return
        member = self.driver.member
        if isinstance(member, ClassicMember):
            member.request_rejoin(reason)
            self.kick()
        else:
            logger.warning(
                "group %s: the coordinator decides over rebalances under group.protocol=consumer; "
                "enforce_rebalance() does nothing",
                self.settings.group_id,
            )

    def kick(self) -> None:
        self.news.set()
        self._kicked.set()

    def is_quiet(self, now: float) -> bool:
        """Returns whether a poll would have nothing to do but to take records; asked from any
        thread.
        """
        if self._loop is None or self._failure is not None or self._changed_since_poll:
            return False
        committer = self.committer
        if committer is not None and (committer.outcomes or committer.auto_commit_is_due(now)):
            return False
        driver = self.driver
        return driver is None or (not driver.callbacks and driver.member.is_content)

    def taken_aside(self, now: float) -> None:
        """Records were taken without a poll on the loop, perhaps in another thread."""
        if self.driver is not None:
            self.driver.member.poll_ended(now)
        if self._loop is not None and self.fetcher.has_room_again(self.handover.partitions):
            self._loop.call_soon_threadsafe(self._kicked.set)

    def raise_failure(self) -> None:
        """What went wrong in the background and is the user's business, once."""
        if self.driver is not None and self.driver.member.failure is not None:
            raise self.driver.member.failure
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """End all work; the group was left before."""
        if self._engine is not None:
            self._engine.cancel()
            await asyncio.gather(self._engine, return_exceptions=True)
        self._missing.close()
        if self.driver is not None:
            await self.driver.close()
        await self.lookups.close()
        await self.fetcher.close()
        await self.cluster.close()

    # -- the loop

    def step(self, now: float) -> None:
        if self.driver is not None:
            self.driver.step(now)
        self.lookups.step(now)
        self.fetcher.step(now)

    async def _run(self) -> None:
        while True:
            self._kicked.clear()
            try:
                # One look at the clock for both: what becomes due between two looks would be
                # neither done nor waited for.
                now = self._now()
                self.step(now)
                wake = self._wake_at(now)
            except Exception as error:
                # Whoever polls has to know: without this loop no record ever comes.
                self.note_failure(unforeseen("the consumer's work", error))
                await asyncio.sleep(_AFTER_A_FAULT)
                continue
            nap = None if wake == float("inf") else max(wake - self._now(), _SHORTEST_NAP)
            try:
                async with asyncio.timeout(nap):
                    await self._kicked.wait()
            except TimeoutError:
                self.news.set()

    def _wake_at(self, now: float) -> float:
        """When something is to be done though nothing happens."""
        wake = min(self.lookups.wake_at(now), self.fetcher.wake_at(now))
        return wake if self.driver is None else min(wake, self.driver.member.wake_at())

    def _metadata_changed(self, metadata: ClusterMetadata) -> None:
        subscription = self.subscription
        if subscription.kind is SubscriptionKind.PATTERN:
            hide_internal = self.settings.exclude_internal_topics
            names = [
                name
                for name, info in metadata.topics.items()
                if not (info.internal and hide_internal)
            ]
            if subscription.matched(names) and self._polled:
                self._update_membership()
        for partition, state in subscription.partitions.items():
            topic = metadata.topics.get(partition.topic)
            info = None if topic is None else topic.partitions.get(partition.partition)
            if info is not None:
                state.leader_changed(info.leader_epoch)
        self._missing.look(metadata, self._topics_of_interest() or ())
        if self.driver is not None:
            self.driver.metadata_changed(metadata)
        self.kick()

    def _update_membership(self) -> None:
        """Tell the member what is wanted; a pattern stands for nothing before the first look."""
        subscription = self.subscription
        if self.driver is None or not subscription.uses_group:
            return
        if subscription.kind is SubscriptionKind.PATTERN and not self.cluster.metadata.nodes:
            return
        self.driver.member.subscribe(subscription.topics, subscription.broker_pattern)
        self.kick()

    def _topics_of_interest(self) -> list[str] | None:
        subscription = self.subscription
        if subscription.kind in (SubscriptionKind.PATTERN, SubscriptionKind.BROKER_PATTERN):
            return None
        assigned = (partition.topic for partition in subscription.partitions)
        return list(dict.fromkeys([*sorted(subscription.topics), *assigned]))

    def note_failure(self, error: KafkaError) -> None:
        """Let the next look of a poll raise it."""
        self._failure = error
        self.news.set()

    def _make_group(self, group: str, on_committed: Callable[[Offsets], None]) -> None:
        settings = self.settings
        coordinator = Coordinator(self.cluster, group)
        self.driver = GroupDriver(
            _make_member(settings, self.machine), self.cluster, coordinator, settings, self.kick
        )
        self.committer = Committer(
            self.cluster,
            settings,
            self.subscription,
            self.handover,
            coordinator,
            self.driver,
            on_committed,
            self.kick,
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _make_member(settings: ConsumerSettings, machine: Machine) -> AnyMember:
    retry_backoff = settings.retry_backoff_ms / 1000
    if settings.group_protocol == "consumer":
        return ConsumerProtocolMember(
            ConsumerOptions(
                # Kafka's form of a UUID: 22 characters.
                urlsafe_b64encode(machine.new_uuid().bytes).decode().rstrip("="),
                max_poll_interval=settings.max_poll_interval_ms / 1000,
                retry_backoff=retry_backoff,
                static=settings.group_instance_id is not None,
            )
        )
    return ClassicMember(
        ClassicOptions(
            heartbeat_interval=settings.heartbeat_interval_ms / 1000,
            max_poll_interval=settings.max_poll_interval_ms / 1000,
            retry_backoff=retry_backoff,
            instance_id=settings.group_instance_id,
            rack=settings.client_rack or None,
        ),
        make_assignors(settings.partition_assignment_strategy),
    )
