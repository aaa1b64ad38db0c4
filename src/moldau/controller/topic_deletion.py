"""Deleting topics: mark, delete the replicas, forget.

A marker under /admin/delete_topics makes the decision durable; from then on clients do not see
the topic. Replicas are deleted by their brokers. When all are gone, so are the topic's nodes, the
marker last. A replica whose broker is down keeps the marker until the broker is back: otherwise its
old log would be taken for that of a later topic of the same name.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from moldau.controller import writes
from moldau.controller.active import ActiveController
from moldau.controller.context import Topic
from moldau.controller.link import RemovedTopic, StopReplica
from moldau.controller.requests import DeleteTopicResult
from moldau.controller.sender import Delivery
from moldau.controller.states import PartitionState, ReplicaState
from moldau.coordination import paths
from moldau.coordination.errors import NodeExistsError, NoNodeError
from moldau.coordination.store import Create, Delete, Op, Watch
from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID

logger = logging.getLogger(__name__)


class TopicDeletion:
    def __init__(self, active: ActiveController) -> None:
        self._active = active
        self._context = active.context

    async def delete_topics(self, targets: Sequence[str | UUID]) -> list[DeleteTopicResult]:
        """By name or id. Answers when the topics are gone, or marked to go when brokers return."""
        if not self._active.settings.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
        context = self._context
        results: list[DeleteTopicResult] = []
        wanted: list[str] = []
        for target, name, error in self._resolve(targets):
            topic = context.existing_topic(name) if name is not None else None
            topic_id = target if isinstance(target, UUID) else NO_TOPIC_ID
            if error is not None:
                results.append(
                    DeleteTopicResult(
                        name=target if isinstance(target, str) else None,
                        topic_id=topic_id,
                        error=error.code,
                        message=error.message,
                    )
                )
            elif topic is not None:
                wanted.append(topic.name)
                results.append(DeleteTopicResult(name=topic.name, topic_id=topic.topic_id))
        await self._mark(wanted)
        await self.resume()
        return results

    def _resolve(
        self, targets: Sequence[str | UUID]
    ) -> list[tuple[str | UUID, str | None, KafkaError | None]]:
        """For each target: the topic meant, or why none. Naming a topic twice is refused."""
        context = self._context
        given = Counter(targets)
        named = [
            (target, target if isinstance(target, str) else context.names.get(target))
            for target in given
        ]
        meant = Counter(name for _, name in named if name is not None)
        answers: list[tuple[str | UUID, str | None, KafkaError | None]] = []
        for target, name in named:
            error: KafkaError | None = None
            by_name = isinstance(target, str)
            if target == NO_TOPIC_ID:
                error = KafkaError(
                    ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
                )
            elif given[target] > 1:
                kind = "name" if by_name else "id"
                error = KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
            elif name is None or context.existing_topic(name) is None:
                error = KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
                )
            elif by_name and meant[name] > 1:
                error = KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            answers.append((target, name, error))
        return answers

    async def _mark(self, names: Sequence[str]) -> None:
        context, active = self._context, self._active
        marks: list[list[Op]] = [
            [writes.fence(context), Create(paths.delete_topic(name))] for name in names
        ]
        for result in await active.write(marks):
            if isinstance(result, Exception) and not isinstance(result, NodeExistsError):
                raise result
        for name in names:
            self._begin(context.topics[name])

    async def markers_changed(self, watch: Watch) -> None:
        """Somebody asked for a deletion through the store (or we did, and it is under way)."""
        context = self._context
        markers = await self._active.store.children(paths.DELETE_TOPICS, watch)
        for name in markers:
            if name in context.topics and name not in context.deleting:
                if self._active.settings.delete_topic_enable:
                    self._begin(context.topics[name])
                else:
                    await self._unmark(name)
            elif name not in context.topics:
                await self._unmark(name)
        await self.resume()

    async def _unmark(self, name: str) -> None:
        active = self._active
        batch: list[Op] = [writes.fence(self._context), Delete(paths.delete_topic(name))]
        (result,) = await active.write([batch])
        if isinstance(result, Exception) and not isinstance(result, NoNodeError):
            raise result
        self._context.deleting.discard(name)

    def _begin(self, topic: Topic) -> None:
        context = self._context
        context.deleting.add(topic.name)
        context.replica_states.move(_replicas(topic), ReplicaState.OFFLINE)
        context.partition_states.move(
            [(topic.name, number) for number in topic.assignment], PartitionState.OFFLINE
        )

    async def resume(self) -> None:
        """Delete what can be deleted now."""
        context, active = self._context, self._active
        for name in sorted(context.deleting - set(context.topics)):
            await self._unmark(name)
        topics = [context.topics[name] for name in sorted(context.deleting)]
        if not topics:
            return
        stops = self._start(topics)
        removed = [RemovedTopic(topic.name, topic.topic_id) for topic in topics]
        self._answered(stops, await active.sender.send(stop=stops, removed=removed))
        for topic in topics:
            if self._is_deleted(topic):
                await self._forget(topic)

    def _start(self, topics: Sequence[Topic]) -> dict[int, list[StopReplica]]:
        """Tell the brokers that are up; the other replicas wait."""
        context = self._context
        states = context.replica_states
        stops: dict[int, list[StopReplica]] = {}
        started, waiting = [], []
        for topic in topics:
            for key in _replicas(topic):
                _, number, broker = key
                if states.state(key) is ReplicaState.DELETION_SUCCESSFUL:
                    continue
                if not context.is_online(broker, topic.name, number):
                    waiting.append(key)
                    continue
                started.append(key)
                state = topic.partitions.get(number)
                epoch = state.leader_epoch if state is not None else -1
                stop = StopReplica(topic.name, topic.topic_id, number, True, epoch)
                stops.setdefault(broker, []).append(stop)
        states.move(
            [key for key in started if states.state(key) is not ReplicaState.OFFLINE],
            ReplicaState.OFFLINE,
        )
        states.move(started, ReplicaState.DELETION_STARTED)
        states.move(
            [key for key in waiting if states.state(key) is ReplicaState.OFFLINE],
            ReplicaState.DELETION_INELIGIBLE,
        )
        return stops

    def _answered(self, stops: dict[int, list[StopReplica]], delivery: Delivery) -> None:
        succeeded: list[tuple[str, int, int]] = []
        failed: list[tuple[str, int, int]] = []
        for broker, stopped in stops.items():
            for one in stopped:
                key = (one.topic, one.partition, broker)
                bad = delivery.has_failed(broker, one.topic, one.partition)
                (failed if bad else succeeded).append(key)
        self._context.replica_states.move(succeeded, ReplicaState.DELETION_SUCCESSFUL)
        self._context.replica_states.move(failed, ReplicaState.DELETION_INELIGIBLE)

    def _is_deleted(self, topic: Topic) -> bool:
        states = self._context.replica_states
        return all(
            states.state(key) is ReplicaState.DELETION_SUCCESSFUL for key in _replicas(topic)
        )

    async def _forget(self, topic: Topic) -> None:
        context, active = self._context, self._active
        active.raise_errors(await active.write(writes.delete_topic(context, topic)))
        context.replica_states.move(_replicas(topic), ReplicaState.NON_EXISTENT)
        keys = [(topic.name, number) for number in topic.assignment]
        context.partition_states.move(keys, PartitionState.OFFLINE)
        context.partition_states.move(keys, PartitionState.NON_EXISTENT)
        context.remove_topic(topic.name)
        logger.info("Deleted topic %s (%s)", topic.name, topic.topic_id)


def _replicas(topic: Topic) -> list[tuple[str, int, int]]:
    return [
        (topic.name, number, broker)
        for number, brokers in topic.assignment.items()
        for broker in brokers
    ]
