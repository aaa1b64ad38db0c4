"""The parts of a running broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.broker.client_quotas import ClientQuotas
from moldau.broker.configs import Configs
from moldau.broker.controller_port import ControllerClient
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.group_coordinator import GroupCoordinator
from moldau.broker.listeners import BrokerListeners
from moldau.broker.long_checks import LongChecks
from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.producer_ids import ProducerIds
from moldau.broker.stalls import Stalls
from moldau.broker.tasks import Tasks
from moldau.broker.traffic import Traffic
from moldau.broker.transaction_coordinator import TransactionCoordinator
from moldau.config.values.broker import BrokerConfig
from moldau.coordinators import CoordinatorRuntime
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LogManager
from moldau.machine.clock import Clock
from moldau.machine.threads import RunInThread
from moldau.net.memory_pool import MemoryPool
from moldau.replication import IsrChanges, Partition, ReplicaManager

if TYPE_CHECKING:
    from moldau.broker.peers import Peers
    from moldau.broker.private_apis import PrivateApis


@dataclass(slots=True)
class Broker:
    """What handlers work with, wired by ``broker/app.py``."""

    node_id: int
    cluster_id: str
    clock: Clock
    run_in_thread: RunInThread
    configs: Configs
    logs: LogManager
    replicas: ReplicaManager
    metadata: MetadataCache
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    client_quotas: ClientQuotas
    long_checks: LongChecks
    request_memory: MemoryPool
    tasks: Tasks = field(default_factory=Tasks)
    traffic: Traffic = field(default_factory=Traffic)
    stalls: Stalls = field(init=False)
    controller: ControllerClient = field(init=False)
    """Joins last: it needs the ports, and those need everything else."""
    peers: Peers | None = None
    """The other brokers of the cluster; None where there cannot be any."""
    private_apis: PrivateApis | None = None
    """What they may ask of this one."""
    isr_changes: IsrChanges | None = None
    """What its leaders ask of the controller."""
    listeners: BrokerListeners = field(init=False)
    coordinators: CoordinatorRuntime = field(init=False)
    groups: GroupCoordinator = field(init=False)
    transactions: TransactionCoordinator = field(init=False)

    @property
    def config(self) -> BrokerConfig:
        """The settings in force now."""
        return self.configs.broker

    def partition(self, topic: str, index: int) -> Partition:
        """Returns the local replica, or raises the error that a client should see."""
        partitions = self.replicas.topics.get(topic)
        partition = partitions.get(index) if partitions is not None else None
        if partition is None:
            raise KafkaError(self.missing_partition_error(topic, index))
        return partition

    def missing_partition_error(self, topic: str, index: int) -> ErrorCode:
        """Returns why a partition is not served here."""
        if not self.metadata.has_partition(topic, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.replicas.is_offline(topic, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
