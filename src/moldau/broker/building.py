"""The parts of a broker, made and joined to each other."""

from __future__ import annotations

from functools import partial

from moldau.broker.broker import Broker
from moldau.broker.client_quotas import ClientQuotas
from moldau.broker.configs import Configs
from moldau.broker.controller_port import SOON_S
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.group_coordinator import group_coordinator_spec
from moldau.broker.listeners import BrokerListeners
from moldau.broker.long_checks import LongChecks
from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.producer_ids import ProducerIds
from moldau.broker.router import Router
from moldau.broker.stalls import Stalls
from moldau.broker.transaction_coordinator import transaction_coordinator_spec
from moldau.broker.transaction_markers import TransactionMarkers
from moldau.config.values.broker import BrokerConfig
from moldau.controller import (
    CreateTopicResult,
    NewTopic,
    ProducerIdBlock,
)
from moldau.coordinators import CoordinatorRuntime, RuntimePorts
from moldau.log import LogManager
from moldau.machine import Machine
from moldau.machine.clock import steady_ms
from moldau.net.memory_pool import MemoryPool
from moldau.quotas.meters import Window
from moldau.replication import LeaderPorts, ReplicaManager

FETCH_SESSION_EVICTION_MS = 120_000


def build(
    config: BrokerConfig,
    machine: Machine,
    configs: Configs,
    logs: LogManager,
    cluster_id: str,
    *,
    alone: bool,
) -> tuple[Broker, Router]:
    """Returns the parts of a broker, and who hands requests to them; all but its controller.

    ``config`` is what its file says, ``alone`` whether there can be no other broker.
    """
    replicas = ReplicaManager(
        config.node_id,
        logs,
        configs.topic,
        LeaderPorts(partial(steady_ms, machine.clock), config.replica_lag_time_max_ms),
    )
    logs.use_high_watermarks(replicas.high_watermarks, replicas.high_watermark)

    async def next_block() -> ProducerIdBlock:
        return await broker.controller.within(SOON_S).next_producer_id_block(config.node_id)

    async def create_topic(topic: NewTopic) -> CreateTopicResult:
        (result,) = await broker.controller.within(SOON_S).create_topics([topic])
        return result

    broker = Broker(
        node_id=config.node_id,
        cluster_id=cluster_id,
        clock=machine.clock,
        run_in_thread=machine.threads.run,
        configs=configs,
        logs=logs,
        replicas=replicas,
        metadata=MetadataCache(),
        producer_ids=ProducerIds(next_block),
        fetch_sessions=FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            FETCH_SESSION_EVICTION_MS,
            randomness=machine.secrets,
        ),
        client_quotas=ClientQuotas(
            Window(config.quota_window_num, config.quota_window_size_seconds * 1000)
        ),
        long_checks=LongChecks(machine.threads.run),
        request_memory=MemoryPool(config.request_memory(machine.limits.memory()), machine.clock),
    )
    broker.coordinators = CoordinatorRuntime(
        RuntimePorts(
            replicas=lambda topic: replicas.topics.get(topic, {}),
            clock=machine.clock,
            spawn=broker.tasks.spawn,
            partition_count=broker.metadata.partition_count,
            create_topic=create_topic,
        )
    )
    broker.groups = broker.coordinators.register(
        group_coordinator_spec(configs, broker.metadata, machine, alone=alone)
    )
    markers = TransactionMarkers(machine.random)
    broker.transactions = broker.coordinators.register(
        transaction_coordinator_spec(configs, markers, alone=alone)
    )
    markers.broker = broker
    broker.stalls = Stalls(broker.clock, broker.traffic.requests)
    router = Router(broker)
    broker.listeners = BrokerListeners(
        machine,
        configs,
        router,
        broker.client_quotas.connections,
        broker.tasks,
        broker.request_memory,
    )
    return broker, router
