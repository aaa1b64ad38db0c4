"""Deleting topics: mark, delete the replicas, forget.

A marker under /admin/delete_topics makes the decision durable; from then on clients do not see
the topic. Replicas are deleted by their brokers, which answer when they are: nobody waits for them
here. When all are gone, so are the topic's nodes, the marker last. A replica whose broker is down
keeps the marker until the broker is back and has deleted it, as with Kafka: the name is not free
before, and no order to delete can be under way that is older than the next topic of that name. A
broker that could not delete a replica is told again after a while.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from moldau.controller import writes
from moldau.controller.active import ActiveController
from moldau.controller.context import Topic
from moldau.controller.courier import Answer
from moldau.controller.link import RemovedTopic, StopReplica
from moldau.controller.requests import DeleteTopicResult, Mutator, TopicReference
from moldau.controller.states import PartitionState, ReplicaState
from moldau.coordination import paths
from moldau.coordination.errors import NodeExistsError, NoNodeError
from moldau.coordination.store import Create, Delete, Op, Watch
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.backoff import Backoff
from moldau.model import NO_TOPIC_ID

logger = logging.getLogger(__name__)


FIRST_RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 60.0
"""For disks that have no room, which is when topics are deleted. A broker whose directory has
failed is asked in vain until it restarts.
"""


class TopicDeletion:
    """``call_later`` calls back after so many seconds, if the office lasts."""

    def __init__(
        self,
        active: ActiveController,
        backoff: Backoff,
        call_later: Callable[[float, Callable[[], Awaitable[None]]], object],
    ) -> None:
        self._active = active
        self._backoff = backoff
        self._call_later = call_later
        self._will_retry = False
        self._context = active.context
        self._told: dict[tuple[str, int, int], int] = {}
        """Replicas whose brokers were told to delete them: as which registration. It will answer,
        or be gone.
        """
        self._announced: set[UUID] = set()
        """Topics that brokers know to be gone, or will be told are not there."""

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, mutator: Mutator | None = None
    ) -> list[DeleteTopicResult]:
        """Returns when the topics are marked; they go when all their brokers have answered."""
        if not self._active.settings.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
        quota = self._active.mutation_quota(mutator)
        results: list[DeleteTopicResult] = []
        wanted: list[str] = []
        for reference, target in self._resolve(topics):
            try:
                if isinstance(target, KafkaError):
                    raise target
                quota.charge(len(target.assignment))
            except KafkaError as error:
                results.append(
                    DeleteTopicResult(
                        name=reference.name,
                        topic_id=reference.topic_id,
                        error=error.code,
                        message=error.message,
                    )
                )
            else:
                wanted.append(target.name)
                results.append(DeleteTopicResult(name=target.name, topic_id=target.topic_id))
        await self._mark(wanted)
        await self.resume()
        return quota.stamp(results)

    async def discard(self, names: Sequence[str]) -> None:
        """Delete topics that could not be made, whatever the settings say of deletion."""
        await self._mark(names)
        await self.resume()

    def _resolve(
        self, references: Sequence[TopicReference]
    ) -> list[tuple[TopicReference, Topic | KafkaError]]:
        """For each reference: the topic meant, or why none. Naming a topic twice is refused."""
        context = self._context
        times_given = Counter(references)
        names = {
            reference: context.names.get(reference.topic_id)
            if reference.name is None
            else reference.name
            for reference in times_given
        }
        times_meant = Counter(name for name in names.values() if name is not None)
        targets: list[tuple[TopicReference, Topic | KafkaError]] = []
        for reference, name in names.items():
            by_name = reference.name is not None
            topic = None if name is None else context.existing_topic(name)
            target: Topic | KafkaError
            if not by_name and reference.topic_id == NO_TOPIC_ID:
                target = KafkaError(
                    ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
                )
            elif times_given[reference] > 1:
                kind = "name" if by_name else "id"
                target = KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
            elif topic is None:
                target = KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
                )
            elif by_name and times_meant[topic.name] > 1:
                target = KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            else:
                target = topic
            targets.append((reference, target))
        return targets

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
        """Tell the brokers that are up to delete what has not been deleted yet."""
        context, active = self._context, self._active
        for name in sorted(context.deleting - set(context.topics)):
            await self._unmark(name)
        topics = [context.topics[name] for name in sorted(context.deleting)]
        if not topics:
            return
        stops = self._start(topics)
        removed = [
            RemovedTopic(topic.name, topic.topic_id)
            for topic in topics
            if topic.topic_id not in self._announced
        ]
        if stops or removed:
            self._announced.update(topic.topic_id for topic in removed)
            active.sender.send(stop=stops, removed=removed)
        await self._forget_deleted(topics)

    async def _forget_deleted(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            if self._is_deleted(topic):
                await self._forget(topic)

    def _start(self, topics: Sequence[Topic]) -> dict[int, list[StopReplica]]:
        """Returns what the brokers that are up are to be told; the other replicas wait."""
        context = self._context
        states = context.replica_states
        stops: dict[int, list[StopReplica]] = {}
        started, waiting = [], []
        for topic in topics:
            for key in _replicas(topic):
                _, number, broker = key
                if states.state(key) is ReplicaState.DELETION_SUCCESSFUL:
                    continue
                if states.state(key) is ReplicaState.DELETION_STARTED:
                    registration = context.brokers.get(broker)
                    if registration is not None and registration.epoch == self._told[key]:
                        continue
                    states.move([key], ReplicaState.DELETION_INELIGIBLE)
                if broker not in context.brokers:
                    waiting.append(key)
                    continue
                # A disk that could not serve it may still be rid of it: its broker knows.
                started.append(key)
                self._told[key] = context.brokers[broker].epoch
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

    async def answered(self, answer: Answer) -> None:
        """A broker has deleted replicas, or could not."""
        context = self._context
        succeeded: list[tuple[str, int, int]] = []
        failed: list[tuple[str, int, int]] = []
        topics: dict[str, Topic] = {}
        for stop in answer.stops:
            topic = context.topics.get(stop.topic)
            if not stop.delete or topic is None or topic.topic_id != stop.topic_id:
                continue
            topics[topic.name] = topic
            key = (stop.topic, stop.partition, answer.broker.id)
            if context.replica_states.state(key) is ReplicaState.DELETION_STARTED:
                bad = (stop.topic, stop.partition) in answer.errors
                (failed if bad else succeeded).append(key)
        context.replica_states.move(succeeded, ReplicaState.DELETION_SUCCESSFUL)
        context.replica_states.move(failed, ReplicaState.DELETION_INELIGIBLE)
        if succeeded:
            self._backoff.reset()
        if failed and not self._will_retry:
            self._will_retry = True
            self._call_later(self._backoff.next_delay(), self._retry)
        await self._forget_deleted(topics.values())

    async def _retry(self) -> None:
        self._will_retry = False
        await self.resume()

    def _is_deleted(self, topic: Topic) -> bool:
        states = self._context.replica_states
        return all(
            states.state(key) is ReplicaState.DELETION_SUCCESSFUL for key in _replicas(topic)
        )

    async def _forget(self, topic: Topic) -> None:
        context, active = self._context, self._active
        results = await active.write_states(writes.delete_topic(context, topic))
        for states, result in results:
            if not isinstance(result, Exception):
                for state in states:
                    del topic.partitions[state.partition]
        active.raise_errors(result for _, result in results)
        context.replica_states.move(_replicas(topic), ReplicaState.NON_EXISTENT)
        for key in _replicas(topic):
            self._told.pop(key, None)
        self._announced.discard(topic.topic_id)
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
