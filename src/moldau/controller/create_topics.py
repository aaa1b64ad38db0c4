"""Creating topics and adding partitions: requests in, plans or refusals out.

The checks, their order, codes and sentences are those of Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from moldau.controller.assignment import Assignment, assign_replicas
from moldau.controller.context import ControllerContext, Topic
from moldau.controller.link import INITIAL_LEADER_EPOCH, LeaderAndIsr
from moldau.controller.requests import DEFAULT, NewPartitions, NewTopic
from moldau.controller.settings import ControllerSettings
from moldau.controller.topic_names import CLUSTER_METADATA_TOPIC, check_name, collision_key
from moldau.errors import ErrorCode, KafkaError

MAX_PARTITIONS_PER_BATCH = 10_000
"""As in Kafka: one request creates no more partitions than this."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that may be created."""

    name: str
    topic_id: UUID
    assignment: Assignment
    configs: dict[str, str]

    @property
    def replication_factor(self) -> int:
        return len(next(iter(self.assignment.values())))


def plan_topics(
    context: ControllerContext,
    requests: Sequence[NewTopic],
    settings: ControllerSettings,
    random: Random,
    new_topic_id: Callable[[], UUID],
    charge: Callable[[int], None] = lambda _partitions: None,
) -> list[TopicPlan | KafkaError]:
    """Returns one answer per request, in order; a name that occurs twice is refused each time.

    ``charge`` is called with the partitions of each topic that could be created, and may refuse it.
    """
    named = Counter(request.name for request in requests)
    too_many = _total_partitions(requests, settings) > MAX_PARTITIONS_PER_BATCH
    planned: dict[str, str] = {}
    answers: list[TopicPlan | KafkaError] = []
    for request in requests:
        try:
            if named[request.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if too_many:
                raise _too_many_partitions()
            key = collision_key(request.name)
            _check_topic(context, request, planned.get(key))
            _check_stray(request.name, settings)
            configs = _checked_configs(request.configs, settings)
            assignment = _place(context, request, settings, random)
            charge(len(assignment))
            planned[key] = request.name
            answers.append(TopicPlan(request.name, new_topic_id(), assignment, configs))
        except KafkaError as error:
            answers.append(error)
    return answers


def _total_partitions(requests: Sequence[NewTopic], settings: ControllerSettings) -> int:
    total = 0
    for request in requests:
        if request.assignments:
            total += len(request.assignments)
        elif request.num_partitions == DEFAULT:
            total += settings.num_partitions
        else:
            total += max(0, request.num_partitions)
    return total


def _too_many_partitions() -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    )


def _check_topic(context: ControllerContext, request: NewTopic, planned: str | None) -> None:
    name = request.name
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
        )
    check_name(name)
    if name in context.deleting:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if name in context.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    # Kafka misses a collision between two topics of one request; here the second is refused.
    other = context.colliding_topic(name) or planned
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _check_stray(name: str, settings: ControllerSettings) -> None:
    """A new topic would take the place of what is left of another one of its name."""
    reason = settings.stray_topics.get(name)
    if reason is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"The name of topic '{name}' is reserved: {reason}"
        )


def _checked_configs(
    configs: Mapping[str, str | None], settings: ControllerSettings
) -> dict[str, str]:
    overrides: dict[str, str] = {}
    without_value: list[str] = []
    for name, value in configs.items():
        if value is None:
            without_value.append(name)
        else:
            overrides[name] = value
    if without_value:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(without_value)}",
        )
    settings.validate_topic_config(overrides)
    return overrides


def _place(
    context: ControllerContext,
    request: NewTopic,
    settings: ControllerSettings,
    random: Random,
) -> Assignment:
    partitions, factor = request.num_partitions, request.replication_factor
    if request.assignments:
        if factor != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set "
                "to -1.",
            )
        if partitions != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return _manual_assignment(context, request.assignments)
    if factor < DEFAULT or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions < DEFAULT or partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if partitions == DEFAULT:
        partitions = settings.num_partitions
    if factor == DEFAULT:
        factor = settings.default_replication_factor
    try:
        return assign_replicas(_open_to_replicas(context, settings), partitions, factor, random)
    except KafkaError as error:
        raise KafkaError(
            error.code, f"Unable to replicate the partition {factor} time(s): {error.message}"
        ) from error


def _open_to_replicas(
    context: ControllerContext, settings: ControllerSettings
) -> dict[int, str | None]:
    """Returns the brokers, with their racks, that may be given replicas."""
    cordoned = settings.cordoned()
    return {
        broker: rack
        for broker, rack in context.racks.items()
        if broker not in cordoned and not _is_cordoned(context, broker)
    }


def _is_cordoned(context: ControllerContext, broker: int) -> bool:
    """Whether a broker has been told to take no new partitions. What the file of another broker
    says, or a list of directories, only that broker can tell.
    """
    settings = context.broker_configs.get(str(broker), {})
    return settings.get("cordoned.log.dirs", "").strip() == "*"


def _manual_assignment(
    context: ControllerContext, assignments: Sequence[tuple[int, Sequence[int]]]
) -> Assignment:
    result: Assignment = {}
    factor: int | None = None
    for partition, replicas in assignments:
        if partition in result:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        check_manual_replicas(context, replicas, factor)
        factor = len(replicas)
        result[partition] = tuple(replicas)
    if any(partition not in result for partition in range(len(result))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return dict(sorted(result.items()))


def check_manual_replicas(
    context: ControllerContext, replicas: Sequence[int], factor: int | None
) -> None:
    """Refuse replicas that are none, unknown, repeated, or not as many as their neighbours'."""
    prefix = "The manual partition assignment includes"
    reason = None
    ordered = sorted(replicas)
    if not ordered:
        reason = f"{prefix} an empty replica list."
    for position, broker in enumerate(ordered):
        if broker not in context.brokers:
            reason = f"{prefix} broker {broker}, but no such broker is registered."
            break
        if position and ordered[position - 1] == broker:
            reason = f"{prefix} the broker {broker} more than once."
            break
    if reason is None and factor is not None and len(ordered) != factor:
        reason = (
            f"{prefix} a partition with {len(ordered)} replica(s), but this is not consistent with "
            f"previous partitions, which have {factor} replica(s)."
        )
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def plan_partitions(
    context: ControllerContext,
    request: NewPartitions,
    settings: ControllerSettings,
    random: Random,
) -> Assignment:
    """Returns the assignment of the partitions to add; raises KafkaError."""
    topic = context.existing_topic(request.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    existing = len(topic.assignment)
    if request.count == existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s)."
        )
    if request.count < existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {request.topic} currently has {existing} partition(s); {request.count} "
            "would not be an increase.",
        )
    additional = request.count - existing
    if request.assignments is not None and len(request.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(request.assignments)} assignment(s) were specified.",
        )
    if additional > MAX_PARTITIONS_PER_BATCH:
        raise _too_many_partitions()
    first_replicas = topic.assignment[min(topic.assignment)]
    factor = len(first_replicas)
    if request.assignments is None:
        brokers = _open_to_replicas(context, settings)
        if brokers:
            brokers |= dict.fromkeys(_absent(context, topic)[: max(0, factor - len(brokers))])
        # Go on where the first partition began, so that leaders stay evenly spread.
        start = sum(broker < first_replicas[0] for broker in brokers)
        added = assign_replicas(
            brokers, additional, factor, random, first_partition=existing, start_index=start
        )
        return {number: _present_first(context, replicas) for number, replicas in added.items()}
    for replicas in request.assignments:
        check_manual_replicas(context, replicas, factor)
    return {existing + nth: tuple(replicas) for nth, replicas in enumerate(request.assignments)}


def _absent(context: ControllerContext, topic: Topic) -> list[int]:
    """Returns the topic's brokers that are down: as in Kafka, which knows brokers before and after
    they are up, a topic can grow without waiting for them, if those that are up are too few.
    """
    known = {broker for replicas in topic.assignment.values() for broker in replicas}
    return sorted(known - context.brokers.keys())


def _present_first(context: ControllerContext, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """The first one is to lead."""
    return tuple(sorted(replicas, key=lambda broker: broker not in context.brokers))


def initial_states(
    context: ControllerContext, topic: Topic, partitions: Sequence[int]
) -> list[LeaderAndIsr]:
    """Returns the first leaders: the first live replica leads, all live ones are in sync.

    A partition without a live replica gets none; it stays new until a replica comes.
    """
    states: list[LeaderAndIsr] = []
    name, topic_id, epoch = topic.name, topic.topic_id, context.epoch
    for number in partitions:
        replicas = topic.assignment[number]
        live = tuple(context.live_replicas(name, number, replicas))
        if live:
            states.append(
                LeaderAndIsr(
                    name,
                    topic_id,
                    number,
                    live[0],
                    INITIAL_LEADER_EPOCH,
                    live,
                    replicas,
                    0,
                    epoch,
                    is_new=True,
                    broker_epochs=tuple([context.brokers[broker].epoch for broker in live]),
                )
            )
    return states
