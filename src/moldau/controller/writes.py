"""Decisions as store operations. Batches are small enough for a real ensemble (1 MB a request).

A topic exists once its own node does. Its partitions' states may follow in later batches: a
controller that dies in between leaves partitions that its successor finds new, and completes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from moldau.controller.context import ControllerContext, Topic
from moldau.controller.create_topics import TopicPlan
from moldau.controller.link import LeaderAndIsr
from moldau.coordination import paths, znodes
from moldau.coordination.store import Check, Create, Delete, Op, SetData
from moldau.coordination.znodes import StateNode, TopicNode

PARTITIONS_PER_BATCH = 1000


def fence(context: ControllerContext) -> Check:
    """Refuses the batch if another controller has been elected since."""
    return Check(paths.CONTROLLER_EPOCH, context.epoch_version)


def batched(items: Iterable[Op], size: int) -> Iterable[list[Op]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def fenced_batches(
    context: ControllerContext, ops: Iterable[Op], size: int = PARTITIONS_PER_BATCH
) -> list[list[Op]]:
    check = fence(context)
    return [[check, *batch] for batch in batched(ops, size)]


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


def create_states(states: Iterable[LeaderAndIsr]) -> Iterable[Op]:
    """Nodes of partitions that have none yet."""
    for state in states:
        path = paths.partition(state.topic, state.partition)
        yield Create(path)
        yield Create(f"{path}/state", state_data(state))


def update_states(states: Iterable[LeaderAndIsr]) -> Iterable[Op]:
    """New states over the ones they follow: ``partition_epoch`` is already the new version."""
    for state in states:
        path = paths.partition_state(state.topic, state.partition)
        yield SetData(path, state_data(state), state.partition_epoch - 1)


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
) -> list[list[Op]]:
    """The first batch makes the topic, with as many partitions as fit."""
    config_exists = plan.name in context.topic_configs
    first: list[Op] = [
        fence(context),
        put_config(paths.topic_config(plan.name), plan.configs, exists=config_exists),
        Create(
            paths.topic(plan.name), znodes.encode_topic(TopicNode(plan.assignment, plan.topic_id))
        ),
        Create(paths.partitions(plan.name)),
        *create_states(states[:PARTITIONS_PER_BATCH]),
    ]
    rest = create_states(states[PARTITIONS_PER_BATCH:])
    return [first, *fenced_batches(context, rest, 2 * PARTITIONS_PER_BATCH)]


def update_topic(topic: Topic) -> SetData:
    """Returns the topic's node with its present assignment."""
    node = TopicNode(topic.assignment, topic.topic_id, topic.adding, topic.removing)
    return SetData(paths.topic(topic.name), znodes.encode_topic(node), topic.version)


def delete_topic(context: ControllerContext, topic: Topic) -> list[list[Op]]:
    """Leaves first; the deletion's marker goes last, so that a broken-off deletion resumes."""

    def partitions() -> Iterable[Op]:
        for number in topic.assignment:
            path = paths.partition(topic.name, number)
            if number in topic.partitions:
                yield Delete(f"{path}/state")
                yield Delete(path)

    last: list[Op] = [
        fence(context),
        Delete(paths.partitions(topic.name)),
        Delete(paths.topic(topic.name)),
    ]
    if topic.name in context.topic_configs:
        last.append(Delete(paths.topic_config(topic.name)))
    last.append(Delete(paths.delete_topic(topic.name)))
    return [*fenced_batches(context, partitions(), 2 * PARTITIONS_PER_BATCH), last]
