"""What a handler is given: the broker's parts, and who is asking."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from moldau.broker.configs import Configs
from moldau.broker.coordinator.service import GroupCoordinator
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.producer_ids import ProducerIds
from moldau.broker.tasks import Tasks
from moldau.broker.traffic import Traffic
from moldau.config.values.broker import BrokerConfig
from moldau.controller import Controller
from moldau.errors import ErrorCode, KafkaError
from moldau.groups.outcome import ClientInfo
from moldau.log import LogManager
from moldau.machine.clock import Clock
from moldau.replication import Partition, ReplicaManager
from moldau.wire.headers import RequestHeader

NO_THROTTLE = timedelta()

NOT_REQUESTED = -(2**31)
"""Kafka's way to say that authorized operations were not asked for."""


@dataclass(slots=True)
class Broker:
    """The parts of a running broker, wired by ``broker/app.py``."""

    node_id: int
    cluster_id: str
    clock: Clock
    configs: Configs
    logs: LogManager
    replicas: ReplicaManager
    metadata: MetadataCache
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    tasks: Tasks = field(default_factory=Tasks)
    traffic: Traffic = field(default_factory=Traffic)
    altering_configs: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from reading stored settings to storing the changed ones: no change may get lost."""
    controller: Controller = field(init=False)
    """Joins last: it needs the ports, and those need everything else."""
    groups: GroupCoordinator = field(init=False)

    @property
    def config(self) -> BrokerConfig:
        """The settings in force now."""
        return self.configs.broker

    def partition(self, topic: str, index: int) -> Partition:
        """The local replica, or the error that a client should see."""
        partitions = self.replicas.topics.get(topic)
        partition = partitions.get(index) if partitions is not None else None
        if partition is None:
            raise KafkaError(self.missing_partition_error(topic, index))
        return partition

    def missing_partition_error(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not served here."""
        if not self.metadata.has_partition(topic, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.replicas.is_offline(topic, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestContext(NamedTuple):
    """One request: its header, the listener it came in by and where it came from."""

    broker: Broker
    header: RequestHeader
    listener: str
    peer_host: str = ""

    @property
    def client(self) -> ClientInfo:
        """The sender as group descriptions show it: Java writes an address with a slash."""
        return ClientInfo(self.header.client_id or "", f"/{self.peer_host}")
