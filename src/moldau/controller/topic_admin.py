"""Duties that clients ask for: topics and partitions created."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from moldau.controller import writes
from moldau.controller.active import ActiveController
from moldau.controller.context import Topic
from moldau.controller.courier import Delivery
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
from moldau.controller.states import PartitionState, ReplicaState
from moldau.controller.topic_deletion import TopicDeletion
from moldau.coordination.errors import NodeExistsError
from moldau.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class Creation(NamedTuple):
    """Topics that were created, as far as the controller is concerned."""

    decided: list[CreateTopicResult]
    made: Sequence[LeaderAndIsr]
    delivery: Delivery


class Growth(NamedTuple):
    """Partitions that were added, as far as the controller is concerned."""

    decided: list[TopicResult]
    made: Sequence[LeaderAndIsr]
    delivery: Delivery

    @property
    def results(self) -> list[TopicResult]:
        """What became of them, now that brokers had time to make them."""
        unmade = _unmade(self.made, self.delivery.failed)
        so = "it was added, and is offline until a restart"
        results = []
        for result in self.decided:
            if result.name in unmade:
                error = _no_replica(result.name, unmade[result.name], so)
                result = msgspec.structs.replace(result, error=error.code, message=error.message)
            results.append(result)
        return results


class TopicAdmin:
    def __init__(self, active: ActiveController, deletion: TopicDeletion) -> None:
        self._active = active
        self._deletion = deletion
        self._context = active.context

    # Creation

    async def create_topics(
        self, requests: Sequence[NewTopic], *, validate_only: bool, mutator: Mutator | None
    ) -> Creation:
        """Decide and tell; whether brokers could make the topics shows in ``confirm``."""
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
        made: list[LeaderAndIsr] = []
        if plans and not validate_only:
            failed, made = await self._create_if_room(plans)
        results: dict[str, CreateTopicResult] = {}
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, TopicPlan):
                answer = failed.get(answer.name, answer)
            results[request.name] = _create_result(request.name, answer)
        return Creation(quota.stamp(list(results.values())), made, active.sender.flush())

    async def confirm(self, creation: Creation) -> list[CreateTopicResult]:
        """Returns what became of topics, now that brokers had time to make them: one with a
        partition that no broker could make is taken back. Nobody is told of a topic that nobody can
        use; the disk may be full.
        """
        self.release(creation)
        failed = creation.delivery.failed
        unmade = {
            name: number
            for name, number in _unmade(creation.made, failed).items()
            if self._context.existing_topic(name) is not None
        }
        if unmade:
            await self._deletion.discard(list(unmade))
        for broker, replicas in failed.items():
            lost = [replica for replica in replicas if replica[0] not in unmade]
            await self._active.replicas_lost_disk(broker, lost)
        return [
            _create_result(result.name, _no_replica(result.name, number, "it was not created"))
            if (number := unmade.get(result.name)) is not None
            else result
            for result in creation.decided
        ]

    def release(self, creation: Creation) -> None:
        """Nobody waits for these topics any more: what fails of them later is taken offline."""
        self._active.unconfirmed.difference_update(state.topic for state in creation.made)

    async def _create_if_room(
        self, plans: Sequence[TopicPlan]
    ) -> tuple[dict[str, KafkaError], list[LeaderAndIsr]]:
        wanted = sum(len(plan.assignment) for plan in plans)
        if await self._active.settings.has_room(wanted):
            return await self._create(plans)
        return {plan.name: _no_room(f"Topic '{plan.name}' was not created") for plan in plans}, []

    async def _create(
        self, plans: Sequence[TopicPlan]
    ) -> tuple[dict[str, KafkaError], list[LeaderAndIsr]]:
        """Write and announce; returns what could not be written, and the partitions there are.
        Raises what else went wrong with one of them, after the others were announced.
        """
        context = self._context
        failure: Exception | None = None
        failed: dict[str, KafkaError] = {}
        batches: list[writes.Batch] = []
        created: list[tuple[TopicPlan, Topic, slice]] = []
        for plan in plans:
            topic = Topic(plan.name, plan.topic_id, plan.assignment)
            states = initial_states(context, topic, list(plan.assignment))
            first = len(batches)
            try:
                batches += writes.create_topic(context, plan, states)
            except KafkaError as error:
                failed[plan.name] = error
            else:
                created.append((plan, topic, slice(first, len(batches))))
        results = await self._active.write_states(batches)
        online: list[LeaderAndIsr] = []
        configs: dict[str, dict[str, str]] = {}
        for plan, topic, mine in created:
            _, made = results[mine][0]
            if isinstance(made, NodeExistsError):
                failed[plan.name] = KafkaError(
                    ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{plan.name}' already exists."
                )
            elif isinstance(made, Exception):
                failure = failure or made
            else:
                # It exists; what is missing of it stays new until it can be written.
                configs[plan.name] = plan.configs
                context.put_topic_config(plan.name, plan.configs)
                context.add_topic(topic)
                self._new_replicas(topic, list(plan.assignment))
                written, unwritten = _divided(results[mine])
                online += written
                failure = failure or unwritten
        self._active.unconfirmed.update(configs)
        self._announce(online, configs)
        if failure is not None:
            self._active.unconfirmed.difference_update(configs)
            raise failure
        return failed, online

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

    def _announce(self, states: Sequence[LeaderAndIsr], configs: dict[str, dict[str, str]]) -> None:
        active = self._active
        active.decided(states)
        active.sender.send(active.take_changed(), topic_configs=configs)

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool, mutator: Mutator | None
    ) -> Growth:
        """Decide and tell; whether brokers could make the partitions shows in ``results``."""
        quota = self._active.mutation_quota(mutator)
        named = Counter(request.topic for request in requests)
        results: dict[str, TopicResult] = {}
        made: list[LeaderAndIsr] = []
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
                    topic = self._context.topics[request.topic]
                    made += await self._add_partitions(topic, assignment)
                results[request.topic] = TopicResult(name=request.topic)
            except KafkaError as error:
                results[request.topic] = TopicResult(
                    name=request.topic, error=error.code, message=error.message
                )
        stamped = quota.stamp(list(results.values()))
        return Growth(stamped, made, self._active.sender.flush())

    async def _add_partitions(
        self, topic: Topic, added: dict[int, tuple[int, ...]]
    ) -> list[LeaderAndIsr]:
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
        results = await active.write_states(writes.grow_topic(context, grown, states))
        _, done = results[0]
        active.raise_errors([done])
        topic.assignment = grown.assignment
        topic.version += 1
        self._new_replicas(topic, list(added))
        written, failure = _divided(results)
        self._announce(written, {})
        if failure is not None:
            raise failure
        return states


def _divided(
    results: Iterable[tuple[list[LeaderAndIsr], object]],
) -> tuple[list[LeaderAndIsr], Exception | None]:
    """Returns the states that were written, and why others were not."""
    written: list[LeaderAndIsr] = []
    failure: Exception | None = None
    for states, result in results:
        if isinstance(result, Exception):
            failure = failure or result
        else:
            written += states
    return written, failure


def _unmade(
    states: Sequence[LeaderAndIsr], failed: Mapping[int, Collection[tuple[str, int]]]
) -> dict[str, int]:
    """Returns topics with a partition that no broker could make, and the first of those."""
    unmade: dict[str, int] = {}
    for state in states:
        name, number = state.topic, state.partition
        # A broker that could not be reached will be told, and may have room.
        if all((name, number) in failed.get(broker, ()) for broker in state.isr):
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
