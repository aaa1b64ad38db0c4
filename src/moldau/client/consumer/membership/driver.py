"""Drives a membership machine: sends what it wants sent, keeps its callbacks for the user."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.consumer.assignors.base import Layout
from moldau.client.consumer.membership import requests
from moldau.client.consumer.membership.actions import (
    Action,
    Beat,
    CallBack,
    ConsumerBeat,
    Join,
    Leave,
    RunAssignor,
    Sync,
)
from moldau.client.consumer.membership.classic import ClassicMember
from moldau.client.consumer.membership.consumer_protocol import ConsumerProtocolMember
from moldau.client.consumer.tasks import Tasks
from moldau.client.coordinators import Coordinator
from moldau.client.errors import unforeseen
from moldau.client.metadata import ClusterMetadata
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.api import ApiKey

logger: Final = logging.getLogger(__name__)

AnyMember = ClassicMember | ConsumerProtocolMember


class GroupDriver:
    def __init__(
        self,
        member: AnyMember,
        cluster: Cluster,
        coordinator: Coordinator,
        settings: ConsumerSettings,
        changed: Callable[[], None],
    ) -> None:
        self.member = member
        self.callbacks: deque[CallBack] = deque()
        """To be carried out in the user's poll, in order."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._settings = settings
        self._changed = changed
        self._tasks = Tasks()
        self._layout: dict[str, int] = {}
        """What the last assignment of this leader was based on: partitions by topic."""

    def step(self, now: float) -> None:
        """Start whatever the machine wants now."""
        self._start_all(self.member.actions(now))

    async def leave(self, within: float) -> None:
        """Say goodbye and wait until that is heard, or the time is up."""
        goodbye = self.member.leave()
        self.callbacks.clear()
        await self._tasks.cancel()
        for action in goodbye:
            try:
                async with asyncio.timeout(within):
                    await self._perform(action)
            except (KafkaError, TimeoutError) as error:
                logger.info("%s: could not say goodbye: %s", self._coordinator, error)

    async def close(self) -> None:
        await self._tasks.cancel()

    def metadata_changed(self, metadata: ClusterMetadata) -> None:
        """Partitions were added, or topics came and went."""
        member = self.member
        if isinstance(member, ConsumerProtocolMember):
            member.learn_names({info.topic_id: name for name, info in metadata.topics.items()})
        elif member.is_leader and self._layout:
            seen = {
                topic: len(metadata.topics[topic].partitions) if topic in metadata.topics else 0
                for topic in self._layout
            }
            if seen != self._layout:
                self._layout = seen
                member.request_rejoin("partitions of subscribed topics have changed")

    def _start_all(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, CallBack):
                self.callbacks.append(action)
                self._changed()
            else:
                self._tasks.start(self._run(action))

    async def _run(self, action: Action) -> None:
        try:
            more = await self._perform(action)
        except KafkaError as error:
            logger.debug("%s: %s: %s", self._coordinator, type(action).__name__, error)
            self.member.failed(action, error, _now())
        except Exception as error:
            fault = unforeseen(f"{type(action).__name__} of {self._coordinator}", error)
            self.member.failed(action, fault, _now())
        else:
            self._start_all(more)
        self._changed()

    async def _perform(self, action: Action) -> Iterable[Action]:
        member = self.member
        if isinstance(member, ConsumerProtocolMember):
            assert isinstance(action, ConsumerBeat)
            await self._consumer_beat(member, action)
            return ()
        match action:
            case Join():
                return await self._join(member, action)
            case RunAssignor():
                return await self._assign(member, action)
            case Sync():
                await self._sync(member, action)
            case Beat():
                await self._beat(member, action)
            case Leave():
                request = requests.leave_request(self._settings, action)
                await self._coordinator.ask(ApiKey.LEAVE_GROUP, request)
        return ()

    async def _join(self, member: ClassicMember, action: Join) -> Iterable[Action]:
        settings = self._settings
        answer = await self._coordinator.ask(
            ApiKey.JOIN_GROUP,
            requests.join_request(settings, action),
            lane="join",
            # The coordinator waits that long for the other members.
            within=settings.max_poll_interval_ms / 1000 + settings.request_timeout,
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return member.member_id_given(action, answer.member_id)
        self._coordinator.check(answer.error_code)
        joined = requests.join_answer(answer)
        logger.info(
            "group %s: joined generation %d as %s%s",
            settings.group_id,
            joined.generation,
            joined.member_id,
            ", its leader" if joined.leader == joined.member_id else "",
        )
        return member.join_answered(action, joined, _now())

    async def _assign(self, member: ClassicMember, action: RunAssignor) -> Iterable[Action]:
        metadata = await self._cluster.refresh(action.topics)
        layout: Layout = {
            topic: [
                frozenset(
                    rack
                    for replica in info.replicas
                    if replica in metadata.nodes and (rack := metadata.nodes[replica].rack)
                )
                for info in metadata.topics[topic].partitions.values()
            ]
            for topic in sorted(action.topics)
            if topic in metadata.topics
        }
        self._layout = {topic: len(layout.get(topic, ())) for topic in action.topics}
        return member.assign(action, layout)

    async def _sync(self, member: ClassicMember, action: Sync) -> None:
        answer = await self._coordinator.ask(
            ApiKey.SYNC_GROUP,
            requests.sync_request(self._settings, action),
            lane="join",
            within=self._settings.max_poll_interval_ms / 1000 + self._settings.request_timeout,
        )
        self._coordinator.check(answer.error_code)
        member.sync_answered(action, answer.assignment, _now())

    async def _beat(self, member: ClassicMember, action: Beat) -> None:
        request = requests.heartbeat_request(self._settings, action)
        answer = await self._coordinator.ask(ApiKey.HEARTBEAT, request)
        self._coordinator.check(answer.error_code)
        member.beat_answered(action, _now())

    async def _consumer_beat(self, member: ConsumerProtocolMember, action: ConsumerBeat) -> None:
        answer = await self._coordinator.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            requests.consumer_heartbeat_request(self._settings, action),
        )
        self._coordinator.check(answer.error_code, answer.error_message)
        member.beat_answered(
            action,
            answer.member_epoch,
            answer.heartbeat_interval.total_seconds(),
            requests.target_of(answer),
            _now(),
        )
        if member.unknown_topics:
            self._cluster.request_update()


def _now() -> float:
    return asyncio.get_running_loop().time()
