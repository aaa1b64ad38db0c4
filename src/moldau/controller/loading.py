"""Reading the cluster from the store when a controller takes over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from moldau.controller.context import ControllerContext, Topic
from moldau.controller.link import LeaderAndIsr
from moldau.controller.stray_topics import Stored, StoredTopic
from moldau.coordination import paths, znodes
from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.store import CoordinationStore, Stat, Watch
from moldau.errors import KafkaError
from moldau.quotas.entity import CLIENT_ID, IP, USER, ClientQuotaEntity
from moldau.quotas.validation import QUOTA_KEYS, check_quota

log = logging.getLogger(__name__)


async def load_brokers(
    store: CoordinationStore, watch: Watch | None
) -> dict[int, znodes.BrokerRegistration]:
    """Returns the live brokers; the watch fires when one comes or goes."""
    ids = sorted(map(int, await store.children(paths.BROKER_IDS, watch)))
    nodes = await store.get_many([paths.broker_id(broker) for broker in ids])
    return {
        broker: znodes.decode_broker(broker, node[0], node[1].czxid)
        for broker, node in zip(ids, nodes, strict=True)
        if node is not None
    }


async def load_context(
    store: CoordinationStore,
    context: ControllerContext,
    new_topic_id: Callable[[], UUID],
    watch_brokers: Watch,
    watch_deletions: Watch,
) -> list[str]:
    """Fill the context; returns topics that were written before there were ids (Kafka 2.7), and
    have one now that is still to be written.
    """
    without_id: list[str] = []
    context.brokers = await load_brokers(store, watch_brokers)
    context.deleting = set(await store.children(paths.DELETE_TOPICS, watch_deletions))
    for name, (config, version) in (await load_versioned_topic_configs(store)).items():
        context.topic_configs[name] = config
        context.topic_config_versions[name] = version
    context.broker_configs = await load_broker_configs(store)
    context.group_configs = await _load_escaped_configs(store, paths.GROUP_CONFIGS)
    context.client_metrics_configs = await _load_escaped_configs(
        store, paths.CLIENT_METRICS_CONFIGS
    )
    context.client_quotas = await _load_client_quotas(store)
    for name, (data, stat) in await _load_nodes(store, paths.TOPICS):
        stored = znodes.decode_topic(name, data)
        assignment = dict(sorted(stored.partitions.items()))
        topic_id = stored.topic_id
        if topic_id is None:
            topic_id = new_topic_id()
            without_id.append(name)
        context.add_topic(
            Topic(name, topic_id, assignment, stat.version, stored.adding, stored.removing)
        )
    # A marker without a topic is what is left of a deletion that was all but done.
    await read_states(
        store,
        context.brokers,
        [(topic, number) for topic in context.topics.values() for number in topic.assignment],
    )
    return without_id


async def load_stored(store: CoordinationStore) -> Stored:
    """Returns what is compared with the log directories at the start of a broker."""
    configs = await load_versioned_topic_configs(store)
    block, loss = await store.get_many([paths.PRODUCER_ID_BLOCK, paths.SUSPECTED_LOSS])
    topics: dict[str, StoredTopic] = {}
    for name, (data, stat) in await _load_nodes(store, paths.TOPICS):
        config, config_version = configs.get(name, ({}, -1))
        node = znodes.decode_topic(name, data)
        topics[name] = StoredTopic(node, stat.version, {}, config, config_version)
    wanted = [(name, number) for name in topics for number in sorted(topics[name].node.partitions)]
    states = await store.get_many([paths.partition_state(*partition) for partition in wanted])
    for (name, number), state in zip(wanted, states, strict=True):
        if state is not None:
            decoded = znodes.decode_state(state[0], name, number)
            topics[name].states[number] = decoded, state[1].version
    return Stored(
        topics,
        deleting=set(await store.children(paths.DELETE_TOPICS)),
        left_configs=configs.keys() - topics.keys(),
        producer_ids=znodes.decode_producer_id_block(block[0]) if block and block[0] else None,
        has_lost=loss is not None,
        can_lose_changes=store.can_lose_changes,
    )


async def load_topic_ids(store: CoordinationStore) -> dict[str, UUID | None]:
    """Returns all topics; None where the store does not tell the id."""
    return {
        name: znodes.decode_topic(name, data).topic_id
        for name, (data, _) in await _load_nodes(store, paths.TOPICS)
    }


async def load_topic_configs(store: CoordinationStore) -> dict[str, dict[str, str]]:
    """Returns the settings of all topics that have any of their own."""
    found = await load_versioned_topic_configs(store)
    return {name: config for name, (config, _) in found.items()}


async def load_versioned_topic_configs(
    store: CoordinationStore,
) -> dict[str, tuple[dict[str, str], int]]:
    """Returns the same, with how often each has changed."""
    parent = paths.TOPIC_CONFIGS
    return {
        name: (znodes.decode_config(data, f"{parent}/{name}"), stat.version)
        for name, (data, stat) in await _load_nodes(store, parent)
    }


async def load_broker_configs(store: CoordinationStore) -> dict[str, dict[str, str]]:
    """Returns what was set at run time for single brokers, and for all (an empty name)."""
    return {
        "" if name == paths.DEFAULT_ENTITY else name: config
        for name, config in (await _load_configs(store, paths.BROKER_CONFIGS)).items()
    }


async def _load_escaped_configs(store: CoordinationStore, parent: str) -> dict[str, dict[str, str]]:
    return {
        paths.unescaped(name): config
        for name, config in (await _load_configs(store, parent)).items()
    }


async def _load_configs(store: CoordinationStore, parent: str) -> dict[str, dict[str, str]]:
    return {
        name: znodes.decode_config(data, f"{parent}/{name}")
        for name, (data, _) in await _load_nodes(store, parent)
    }


async def _load_nodes(
    store: CoordinationStore, parent: str
) -> list[tuple[str, tuple[bytes, Stat]]]:
    """Returns the children of a node, by name."""
    names = await store.children(parent)
    nodes = await store.get_many([f"{parent}/{name}" for name in names])
    return [(name, node) for name, node in zip(names, nodes, strict=True) if node is not None]


async def _load_client_quotas(
    store: CoordinationStore,
) -> dict[ClientQuotaEntity, dict[str, float]]:
    loaded: dict[ClientQuotaEntity, dict[str, float]] = {}

    async def load(parent: str, kind: str, of: dict[str, str | None]) -> list[str]:
        children = await _load_nodes(store, parent)
        for node, (data, _) in children:
            entity = ClientQuotaEntity.of({**of, kind: paths.quota_name(node)})
            if quotas := _decode_quotas(entity, data, f"{parent}/{node}"):
                loaded[entity] = quotas
        return [node for node, _ in children]

    await load(paths.CLIENT_CONFIGS, CLIENT_ID, {})
    await load(paths.IP_CONFIGS, IP, {})
    users = await load(paths.USER_CONFIGS, USER, {})
    clients = [paths.clients_of_user(user) for user in users]
    for user, parent, node in zip(users, clients, await store.get_many(clients), strict=True):
        if node is not None:
            await load(parent, CLIENT_ID, {USER: paths.quota_name(user)})
    return loaded


def _decode_quotas(entity: ClientQuotaEntity, data: bytes, path: str) -> dict[str, float]:
    """Returns the quotas in a node. What nobody could have set is not in force; a cluster without a
    controller would be worse.
    """
    try:
        config = znodes.decode_config(data, path)
    except StoreCorruptError as error:
        log.error("no quota of %s is in force: %s", entity, error)
        return {}
    quotas: dict[str, float] = {}
    for key in QUOTA_KEYS & config.keys():
        try:
            value = float(config[key])
            check_quota(entity, key, value)
        except (ValueError, KafkaError) as error:
            log.error("%s=%s in node %s is not in force: %s", key, config[key], path, error)
        else:
            quotas[key] = value
    return quotas


async def read_states(
    store: CoordinationStore,
    brokers: Mapping[int, znodes.BrokerRegistration],
    wanted: list[tuple[Topic, int]],
) -> None:
    """Read the states of these partitions into their topics. ``brokers`` are those that are up."""
    state_paths = [paths.partition_state(topic.name, number) for topic, number in wanted]
    nodes = await store.get_many(state_paths)
    for (topic, number), node in zip(wanted, nodes, strict=True):
        if node is None:
            topic.partitions.pop(number, None)
            continue
        data, stat = node
        state = znodes.decode_state(data, topic.name, number)
        topic.partitions[number] = LeaderAndIsr(
            topic.name,
            topic.topic_id,
            number,
            state.leader,
            state.leader_epoch,
            state.isr,
            topic.assignment[number],
            stat.version,
            state.controller_epoch,
            state.leader_recovery_state,
            (),
            topic.adding.get(number, ()),
            topic.removing.get(number, ()),
            elr=state.elr,
            last_known_leader=state.last_known_leader,
            broker_epochs=state.broker_epochs or _epochs(state, brokers, stat.mzxid),
        )


def _epochs(
    state: znodes.StateNode, brokers: Mapping[int, znodes.BrokerRegistration], written: int
) -> tuple[int, ...]:
    """Returns broker epochs for a state that does not tell them: it was written for lives that had
    begun by then, which may be the present ones.
    """
    return tuple(
        [
            brokers[replica].epoch
            if replica in brokers and brokers[replica].epoch <= written
            else written
            for replica in (*state.isr, *state.elr)
        ]
    )
