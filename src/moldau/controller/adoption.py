"""Taking over a data directory that Apache Kafka wrote: which topics it holds, as store writes.

Used once, when the store of a new cluster is empty but its log directories are not. What is found
on disk is the truth about records; the metadata log of a KRaft broker, if there is one, tells the
topics' settings, which topics were deleted, and which producer ids were given out.

The caller decides that adoption is due by the missing cluster id, and writes the id afterwards, so
an adoption that was broken off is done again; what it had written already is left as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from moldau.controller.kraft_image import KraftTopic, MetadataImage
from moldau.controller.topic_names import CLUSTER_METADATA_TOPIC, invalid_reason
from moldau.controller.writes import PARTITIONS_PER_BATCH, batched, put_config
from moldau.coordination import paths, znodes
from moldau.coordination.errors import NodeExistsError
from moldau.coordination.store import CoordinationStore, Create, Op, SetData
from moldau.coordination.znodes import ProducerIdBlock, StateNode, TopicNode
from moldau.errors import KafkaError
from moldau.quotas.entity import ClientQuotaEntity, canonical_entity
from moldau.quotas.validation import check_entity, check_quota

_BLOCK = 1000

_FEW_MISSING = 20
_MISSING_FOR_EACH = 10

KEEP_EVERYTHING: Mapping[str, str] = {"cleanup.policy": ""}
"""The settings of topics whose own are not known: nothing is deleted until somebody sets some."""


class FoundPartition(NamedTuple):
    """A partition directory: topic id from its partition.metadata, newest leader epoch or -1."""

    topic: str
    partition: int
    topic_id: UUID | None
    leader_epoch: int


@dataclass(slots=True)
class AdoptionPlan:
    """Writes in batches, and what a person should know about them."""

    batches: list[list[Op]] = field(default_factory=list)
    topics: dict[str, TopicNode] = field(default_factory=dict)
    strays: list[FoundPartition] = field(default_factory=list)
    """Directories of topics that were deleted or recreated: not served, and safe to remove."""
    left_alone: dict[str, str] = field(default_factory=dict)
    """Names of directories that nobody can make a topic of, and why."""
    without_settings: list[str] = field(default_factory=list)
    """Topics whose settings nobody knows: they keep everything until somebody sets some."""
    warnings: list[str] = field(default_factory=list)


def plan_adoption(
    found: Iterable[FoundPartition],
    broker: int,
    new_topic_id: Callable[[], UUID],
    *,
    image: MetadataImage | None = None,
    topic_configs: Mapping[str, Mapping[str, str]] | None = None,
    next_producer_id: int = 0,
) -> AdoptionPlan:
    """Every topic gets this broker as its only replica, leading above the newest epoch on disk.

    ``topic_configs`` are settings known from elsewhere; the image's come on top. A topic of which
    neither tells anything keeps all it has until somebody says otherwise.
    ``next_producer_id`` is above every producer id seen in the logs: directories without a metadata
    log do not say which were given out.
    """
    plan = AdoptionPlan()
    by_topic: dict[str, list[FoundPartition]] = {}
    for partition in found:
        if partition.topic != CLUSTER_METADATA_TOPIC:
            by_topic.setdefault(partition.topic, []).append(partition)
    configs = {name: dict(config) for name, config in (topic_configs or {}).items()}
    known: dict[str, KraftTopic] = {}
    if image is not None:
        known = {topic.name: topic for topic in image.topics.values()}
        for name, config in image.topic_configs.items():
            configs.setdefault(name, {}).update(config)
        next_producer_id = max(next_producer_id, image.next_producer_id)
        _plan_configs(plan, paths.broker_config, image.broker_configs)
        _plan_configs(plan, paths.group_config, image.group_configs)
        _plan_configs(plan, paths.client_metrics_config, image.client_metrics_configs)
        _plan_quotas(plan, image.client_quotas)
    names: dict[UUID | None, set[str]] = {}
    for partition in (one for there in by_topic.values() for one in there if one.topic_id):
        names.setdefault(partition.topic_id, set()).add(partition.topic)
    for name in sorted(by_topic.keys() | known.keys()):
        there = sorted(by_topic.get(name, []), key=lambda partition: partition.partition)
        unfit = None if name in known else unfit_reason(name, [p.partition for p in there])
        others = names.get(common_id(there), set()) - {name}
        if others and name not in known:
            unfit = f"their topic id is that of {', '.join(sorted(others))}, too"
        if unfit is not None:
            plan.left_alone[name] = unfit
            plan.warnings.append(f"Directories of {name} are left alone: {unfit}")
            continue
        if image is not None and name not in known:
            plan.strays += there
            plan.warnings.append(f"Topic {name} was deleted; its directories are not served")
            continue
        settings: Mapping[str, str] = configs.get(name, {})
        if image is None and name not in configs:
            settings = KEEP_EVERYTHING
            plan.without_settings.append(name)
        _plan_topic(plan, name, there, known.get(name), broker, new_topic_id, settings)
    if next_producer_id > 0:
        start = max(0, next_producer_id - _BLOCK)
        block = ProducerIdBlock(broker, start, next_producer_id - 1)
        data = znodes.encode_producer_id_block(block)
        plan.batches.append([SetData(paths.PRODUCER_ID_BLOCK, data)])
    return plan


def _plan_configs(
    plan: AdoptionPlan,
    path_of: Callable[[str], str],
    configs: Mapping[str, Mapping[str, str]],
) -> None:
    for entity, config in configs.items():
        plan.batches.append([Create(path_of(entity), znodes.encode_config(config))])


def _plan_quotas(
    plan: AdoptionPlan, client_quotas: Mapping[ClientQuotaEntity, Mapping[str, float]]
) -> None:
    """Users first: their nodes are the parents of their clients'. Of several batches that make the
    same node, the first one counts.
    """
    for entity in sorted(client_quotas, key=lambda entity: len(entity.entries)):
        quotas: dict[str, float] = {}
        for key, value in client_quotas[entity].items():
            try:
                check_entity(entity)
                check_quota(entity, key, value)
            except KafkaError as error:
                plan.warnings.append(f"{key}={value} of {entity} is left out: {error}")
            else:
                quotas[key] = value
        if quotas:
            adopted = canonical_entity(entity)
            plan.batches += [[Create(parent)] for parent in paths.client_quota_parents(adopted)]
            node = Create(paths.client_quotas(adopted), znodes.encode_quotas(quotas))
            plan.batches.append([node])


def _plan_topic(
    plan: AdoptionPlan,
    name: str,
    there: Sequence[FoundPartition],
    known: KraftTopic | None,
    broker: int,
    new_topic_id: Callable[[], UUID],
    config: Mapping[str, str],
) -> None:
    topic_id = known.topic_id if known is not None else common_id(there) or new_topic_id()
    epochs: dict[int, int] = {}
    for partition in there:
        if partition.topic_id not in (None, topic_id):
            plan.strays.append(partition)
            plan.warnings.append(
                f"{name}-{partition.partition} belongs to an earlier topic {name}; it is not served"
            )
        else:
            epochs[partition.partition] = partition.leader_epoch
    expected = known.partitions if known is not None else {}
    if not epochs and not any(broker in state.replicas for state in expected.values()):
        plan.warnings.append(f"Topic {name} has no partition here; it is left out")
        return
    count = max([*epochs, *expected]) + 1
    missing = [number for number in range(count) if number not in epochs]
    if missing:
        plan.warnings.append(
            f"Topic {name} has {count} partitions, but {some(missing)} not in the log "
            "directories: they begin empty"
        )
    replicas: tuple[int, ...] = (broker,)
    assignment = dict.fromkeys(range(count), replicas)
    plan.topics[name] = TopicNode(assignment, topic_id)
    states: dict[int, StateNode] = {}
    for number in assignment:
        epoch = epochs.get(number, -1)
        if number in expected:
            epoch = max(epoch, expected[number].leader_epoch)
        states[number] = StateNode(0, broker, epoch, (broker,))
    plan.batches += create_topic_nodes(name, plan.topics[name], config, states)


def create_topic_nodes(
    name: str,
    node: TopicNode,
    config: Mapping[str, str],
    states: Mapping[int, StateNode],
    *,
    config_exists: bool = False,
) -> list[list[Op]]:
    """Returns the writes, in batches, that make a topic with these states of its partitions."""
    ops: list[Op] = [
        put_config(paths.topic_config(name), config, exists=config_exists),
        Create(paths.topic(name), znodes.encode_topic(node)),
        Create(paths.partitions(name)),
    ]
    nodes: list[Op] = []
    for number, state in states.items():
        path = paths.partition(name, number)
        nodes += [Create(path), Create(f"{path}/state", znodes.encode_state(state))]
    return [ops, *batched(nodes, 2 * PARTITIONS_PER_BATCH)]


def common_id(there: Sequence[FoundPartition]) -> UUID | None:
    """Returns the id most of the directories agree on."""
    ids = Counter(partition.topic_id for partition in there if partition.topic_id is not None)
    return ids.most_common(1)[0][0] if ids else None


def unfit_reason(name: str, numbers: Sequence[int]) -> str | None:
    """Returns why directories of this name and these numbers are no topic's; None if they may be.

    Anything may lie in a log directory: ``orders-20261116`` is no partition 20,261,116.
    """
    reason = invalid_reason(name)
    if reason is not None:
        return f"that is no name for a topic: {reason}"
    missing = max(numbers) + 1 - len(set(numbers))
    if missing > max(_FEW_MISSING, _MISSING_FOR_EACH * len(numbers)):
        return f"{missing} partitions before {name}-{max(numbers)} are not there"
    return None


def some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    return f"{shown} {'is' if len(numbers) == 1 else 'are'}"


async def write_batches(store: CoordinationStore, batches: Sequence[Sequence[Op]]) -> None:
    """Write a plan; what is there already stays. The store must be prepared."""
    for result in await store.multi_many(batches):
        if isinstance(result, Exception) and not isinstance(result, NodeExistsError):
            raise result
