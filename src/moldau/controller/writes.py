"""Decisions as store operations, in batches: each is written whole or not at all, and is no larger
than what a real ensemble takes (``jute.maxbuffer``).

A topic exists once its own node does. Its partitions' states may follow in later batches: a
controller that dies in between leaves partitions that its successor finds new, and completes. So
does one that could not write them, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from moldau.controller.context import ControllerContext, Topic
from moldau.controller.create_topics import TopicPlan
from moldau.controller.link import LeaderAndIsr
from moldau.coordination import paths, znodes
from moldau.coordination.store import Check, Create, Delete, Op, SetData
from moldau.coordination.znodes import StateNode, TopicNode
from moldau.errors import ErrorCode, KafkaError

PARTITIONS_PER_BATCH = 1000
LARGEST_BATCH: Final = 1_000_000
"""Bytes: a little less than the 1,048,575 that ZooKeeper takes by default."""
_AROUND: Final = 64
"""Bytes of an operation besides path and data: lengths, type, access control."""


class Batch(NamedTuple):
    """Operations that are written together, and the partitions that they are about."""

    states: list[LeaderAndIsr]
    ops: list[Op]


def fence(context: ControllerContext) -> Check:
    """Refuses the batch if another controller has been elected since."""
    return Check(paths.CONTROLLER_EPOCH, context.epoch_version)


def batched(items: Iterable[Op], size: int) -> Iterable[list[Op]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def size_of(ops: Iterable[Op]) -> int:
    """Returns about how many bytes they take in a request, rather more than less."""
    size = 0
    for op in ops:
        size += _AROUND + len(op.path.encode())
        if isinstance(op, Create | SetData):
            size += len(op.data)
    return size


def fenced_batches(
    context: ControllerContext,
    changes: Iterable[tuple[LeaderAndIsr, Sequence[Op]]],
    head: Sequence[Op] = (),
) -> list[Batch]:
    """What has to be written for each partition; ``head`` comes before all of it. Who has a head
    sees to it that that is not too large by itself.
    """
    check = fence(context)
    batch = Batch([], [check, *head])
    batches = [batch] if head else []
    size = size_of(batch.ops)
    for state, ops in changes:
        more = size_of(ops)
        is_full = size + more > LARGEST_BATCH or len(batch.states) == PARTITIONS_PER_BATCH
        if is_full or not batches:
            batch = Batch([], [check])
            batches.append(batch)
            size = size_of(batch.ops)
        batch.states.append(state)
        batch.ops.extend(ops)
        size += more
    return batches


def state_data(state: LeaderAndIsr) -> bytes:
    # Who is the only replica leads whatever it has lost.
    broker_epochs = state.broker_epochs if len(state.replicas) > 1 else ()
    return znodes.encode_state(
        StateNode(
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            state.leader_recovery_state,
            state.elr,
            state.last_known_leader,
            broker_epochs,
        )
    )


def create_states(
    context: ControllerContext, states: Iterable[LeaderAndIsr], head: Sequence[Op] = ()
) -> list[Batch]:
    """Nodes of partitions that have none yet."""

    def nodes(state: LeaderAndIsr) -> list[Op]:
        path = paths.partition(state.topic, state.partition)
        return [Create(path), Create(f"{path}/state", state_data(state))]

    return fenced_batches(context, ((state, nodes(state)) for state in states), head)


def update_states(context: ControllerContext, states: Iterable[LeaderAndIsr]) -> list[Batch]:
    """New states over the ones they follow: ``partition_epoch`` is already the new version."""

    def node(state: LeaderAndIsr) -> Op:
        path = paths.partition_state(state.topic, state.partition)
        return SetData(path, state_data(state), state.partition_epoch - 1)

    return fenced_batches(context, ((state, [node(state)]) for state in states))


def put_config(path: str, config: Mapping[str, str], *, exists: bool) -> Op:
    data = znodes.encode_config(config)
    return SetData(path, data) if exists else Create(path, data)


def put_or_drop_config(path: str, config: Mapping[str, str], *, exists: bool) -> list[Op]:
    """The same for something that is only there as long as it has settings."""
    if config:
        return [put_config(path, config, exists=exists)]
    return [Delete(path)] if exists else []


def create_topic(
    context: ControllerContext, plan: TopicPlan, states: Sequence[LeaderAndIsr]
) -> list[Batch]:
    """The first batch makes the topic, with as many partitions as fit; raises KafkaError."""
    config_exists = plan.name in context.topic_configs
    head: list[Op] = [
        put_config(paths.topic_config(plan.name), plan.configs, exists=config_exists),
        Create(
            paths.topic(plan.name), znodes.encode_topic(TopicNode(plan.assignment, plan.topic_id))
        ),
        Create(paths.partitions(plan.name)),
    ]
    _check_size(plan.name, head)
    return create_states(context, states, head)


def update_topic(topic: Topic) -> SetData:
    """The topic's node, as the topic is now."""
    node = TopicNode(topic.assignment, topic.topic_id, topic.adding, topic.removing)
    return SetData(paths.topic(topic.name), znodes.encode_topic(node), topic.version)


def grow_topic(
    context: ControllerContext, grown: Topic, states: Sequence[LeaderAndIsr]
) -> list[Batch]:
    """The first batch puts the assignment as it is now, with as many partitions as fit; raises
    KafkaError.
    """
    head = [update_topic(grown)]
    _check_size(grown.name, head)
    return create_states(context, states, head)


def _check_size(topic: str, head: Sequence[Op]) -> None:
    size = size_of(head)
    if size > LARGEST_BATCH:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The assignment and the settings of topic '{topic}' have {size} bytes; the "
            f"coordination store takes {LARGEST_BATCH}.",
        )


def delete_topic(context: ControllerContext, topic: Topic) -> list[Batch]:
    """Leaves first; the deletion's marker goes last, so that a broken-off deletion resumes."""

    def nodes(state: LeaderAndIsr) -> list[Op]:
        path = paths.partition(topic.name, state.partition)
        return [Delete(f"{path}/state"), Delete(path)]

    partitions = [topic.partitions[number] for number in sorted(topic.partitions)]
    last: list[Op] = [
        fence(context),
        Delete(paths.partitions(topic.name)),
        Delete(paths.topic(topic.name)),
    ]
    if topic.name in context.topic_configs:
        last.append(Delete(paths.topic_config(topic.name)))
    last.append(Delete(paths.delete_topic(topic.name)))
    leaves = fenced_batches(context, ((state, nodes(state)) for state in partitions))
    return [*leaves, Batch([], last)]
