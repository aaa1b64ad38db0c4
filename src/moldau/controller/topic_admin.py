"""Duties that clients ask for: topics and partitions created."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from moldau.controller import writes
from moldau.controller.active import ActiveController
from moldau.controller.context import Topic
from moldau.controller.create_topics import (
    TopicPlan,
    initial_states,
    plan_partitions,
    plan_topics,
)
from moldau.controller.link import LeaderAndIsr
from moldau.controller.requests import (
    CreateTopicResult,
    Mutator,
    NewPartitions,
    NewTopic,
    TopicResult,
)
from moldau.controller.sender import Delivery
from moldau.controller.states import PartitionState, ReplicaState
from moldau.controller.topic_deletion import TopicDeletion
from moldau.coordination.errors import NodeExistsError
from moldau.coordination.store import Op
from moldau.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class TopicAdmin:
    def __init__(self, active: ActiveController, deletion: TopicDeletion) -> None:
        self._active = active
        self._deletion = deletion
        self._context = active.context

    # Creation

    async def create_topics(
        self, requests: Sequence[NewTopic], *, validate_only: bool, mutator: Mutator | None
    ) -> list[CreateTopicResult]:
        active = self._active
        quota = active.mutation_quota(mutator)
        answers = plan_topics(
            self._context,
            requests,
            active.settings,
            active.random,
            active.new_topic_id,
            quota.charge,
        )
        plans = [answer for answer in answers if isinstance(answer, TopicPlan)]
        failed: dict[str, KafkaError] = {}
        if plans and not validate_only:
            failed = await self._create_if_room(plans)
        results: dict[str, CreateTopicResult] = {}
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, TopicPlan):
                answer = failed.get(answer.name, answer)
            results[request.name] = _create_result(request.name, answer)
        return quota.stamp(list(results.values()))

    async def _create_if_room(self, plans: Sequence[TopicPlan]) -> dict[str, KafkaError]:
        wanted = sum(len(plan.assignment) for plan in plans)
        if await self._active.settings.has_room(wanted):
            return await self._create(plans)
        return {plan.name: _no_room(f"Topic '{plan.name}' was not created") for plan in plans}

    async def _create(self, plans: Sequence[TopicPlan]) -> dict[str, KafkaError]:
        """Write and announce; returns what could not be written, or made on any disk."""
        context = self._context
        failed: dict[str, KafkaError] = {}
        batches: list[list[Op]] = []
        created: list[tuple[TopicPlan, Topic, list[LeaderAndIsr], slice]] = []
        for plan in plans:
            topic = Topic(plan.name, plan.topic_id, plan.assignment)
            states = initial_states(context, topic, list(plan.assignment))
            first = len(batches)
            batches += writes.create_topic(context, plan, states)
            created.append((plan, topic, states, slice(first, len(batches))))
        results = await self._active.write(batches)
        online: list[LeaderAndIsr] = []
        configs: dict[str, dict[str, str]] = {}
        for plan, topic, states, mine in created:
            if isinstance(results[mine][0], NodeExistsError):
                failed[plan.name] = KafkaError(
                    ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{plan.name}' already exists."
                )
                continue
            self._active.raise_errors(results[mine])
            configs[plan.name] = plan.configs
            context.put_topic_config(plan.name, plan.configs)
            context.add_topic(topic)
            self._new_replicas(topic, list(plan.assignment))
            online += states
        delivery = await self._announce(online, configs)
        unmade = _unmade(online, delivery)
        if unmade:
            # Nobody is told of a topic that nobody can use; the disk may be full.
            for name, number in unmade.items():
                failed[name] = _no_replica(name, number, "it was not created")
            delivery.forget_topics(unmade)
            await self._deletion.discard(list(unmade))
        await self._active.settle(delivery)
        return failed

    def _new_replicas(self, topic: Topic, numbers: Sequence[int]) -> None:
        context = self._context
        context.partition_states.move(
            [(topic.name, number) for number in numbers], PartitionState.NEW
        )
        keys = [
            (topic.name, number, broker)
            for number in numbers
            for broker in topic.assignment[number]
        ]
        context.replica_states.move(keys, ReplicaState.NEW)
        context.replica_states.move(
            [key for key in keys if key[2] in context.brokers], ReplicaState.ONLINE
        )
        context.replica_states.move(
            [key for key in keys if key[2] not in context.brokers], ReplicaState.OFFLINE
        )

    async def _announce(
        self, states: Sequence[LeaderAndIsr], configs: dict[str, dict[str, str]]
    ) -> Delivery:
        active = self._active
        active.went_online(states)
        return await active.sender.send(active.take_changed(), topic_configs=configs)

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool, mutator: Mutator | None
    ) -> list[TopicResult]:
        quota = self._active.mutation_quota(mutator)
        named = Counter(request.topic for request in requests)
        results: dict[str, TopicResult] = {}
        for request in requests:
            try:
                if named[request.topic] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                assignment = plan_partitions(
                    self._context, request, self._active.settings, self._active.random
                )
                quota.charge(len(assignment))
                if not validate_only:
                    if not await self._active.settings.has_room(len(assignment)):
                        raise _no_room(f"No partition was added to topic '{request.topic}'")
                    await self._add_partitions(self._context.topics[request.topic], assignment)
                results[request.topic] = TopicResult(name=request.topic)
            except KafkaError as error:
                results[request.topic] = TopicResult(
                    name=request.topic, error=error.code, message=error.message
                )
        return quota.stamp(list(results.values()))

    async def _add_partitions(self, topic: Topic, added: dict[int, tuple[int, ...]]) -> None:
        context, active = self._context, self._active
        grown = Topic(
            topic.name,
            topic.topic_id,
            topic.assignment | added,
            topic.version,
            topic.adding,
            topic.removing,
        )
        states = initial_states(context, grown, list(added))
        first: list[Op] = [writes.fence(context), writes.update_topic(grown)]
        rest = writes.fenced_batches(
            context, writes.create_states(states), 2 * writes.PARTITIONS_PER_BATCH
        )
        active.raise_errors(await active.write([first, *rest]))
        topic.assignment = grown.assignment
        topic.version += 1
        self._new_replicas(topic, list(added))
        delivery = await self._announce(states, {})
        await active.settle(delivery)
        for name, number in _unmade(states, delivery).items():
            raise _no_replica(name, number, "it was added, and is offline until a restart")


def _unmade(states: Sequence[LeaderAndIsr], delivery: Delivery) -> dict[str, int]:
    """Returns topics with a partition that no broker could make, and the first of those."""
    unmade: dict[str, int] = {}
    for state in states:
        name, number = state.topic, state.partition
        # A broker that could not be reached will be told, and may have room.
        if all((name, number) in delivery.failed.get(broker, ()) for broker in state.isr):
            unmade.setdefault(name, number)
    return unmade


def _no_room(so: str) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{so}: the disks are full.")


def _no_replica(name: str, number: int, so: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"No broker could make a log for partition {number} of topic '{name}', {so}. Its disk may "
        "be full: the broker's log says why.",
    )


def _create_result(name: str, answer: TopicPlan | KafkaError) -> CreateTopicResult:
    if isinstance(answer, KafkaError):
        return CreateTopicResult(name=name, error=answer.code, message=answer.message)
    return CreateTopicResult(
        name=name,
        topic_id=answer.topic_id,
        num_partitions=len(answer.assignment),
        replication_factor=answer.replication_factor,
        configs=answer.configs,
    )
