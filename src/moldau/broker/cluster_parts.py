"""The parts of a broker that only exist because there may be others, made and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from moldau.broker.broker import Broker
from moldau.broker.cluster_secret import cluster_secret
from moldau.broker.controller_port import ControllerClient
from moldau.broker.forwarding import ForwardingController
from moldau.broker.peer_authentication import PeerAuthentication
from moldau.broker.peers import Peers, PeerSettings
from moldau.broker.private_apis import PrivateApis
from moldau.broker.remote_link import ClusterLink
from moldau.controller import (
    AlterPartition,
    AlterPartitionResult,
    BrokerLink,
    BrokerUpdate,
    Controller,
    ReplicaError,
)
from moldau.coordination.errors import CoordinationError
from moldau.coordination.store import CoordinationStore
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.net import BufferPool
from moldau.net.broker_connection import BrokerConnection
from moldau.replication import IsrChanges
from moldau.replication.followers import FetcherSettings, FollowerPorts, ReplicaFetchers


@dataclass(slots=True)
class ClusterParts:
    """``peers`` for whoever talks to other brokers, ``link`` for the controller."""

    broker: Broker
    machine: Machine
    authentication: PeerAuthentication
    peers: Peers
    link: ClusterLink
    fetchers: ReplicaFetchers | None = None

    @classmethod
    async def make(
        cls, broker: Broker, machine: Machine, store: CoordinationStore, local: BrokerLink
    ) -> ClusterParts:
        config = broker.config
        secret = await cluster_secret(config, store, machine)
        settings = PeerSettings(
            broker.node_id,
            broker.cluster_id,
            secret,
            config.inter_broker_listener,
            connect_timeout=config.socket_connection_setup_timeout_ms / 1000,
            request_timeout=config.request_timeout_ms / 1000,
        )
        peers = Peers(machine, settings)
        return cls(
            broker,
            machine,
            PeerAuthentication(machine, broker.cluster_id, broker.node_id, secret),
            peers,
            ClusterLink(
                broker.node_id, local, peers, within=config.controller_socket_timeout_ms / 1000
            ),
        )

    def join(self, controller: Controller) -> None:
        """Carry on to whoever is in charge what is asked of this broker, and let others ask."""
        broker = self.broker
        broker.replicas.following = self.fetchers = ReplicaFetchers(
            _follower_ports(broker, controller, self.peers)
        )
        self.peers.broker_epoch = lambda: controller.broker_epoch
        broker.peers = self.peers
        forwarding = ForwardingController(
            controller,
            self.peers,
            partial(self._locate, controller),
            self.machine,
            within=broker.config.request_timeout_ms / 1000,
        )
        broker.controller = cast("ControllerClient", forwarding)
        broker.private_apis = PrivateApis(
            broker.config.inter_broker_listener,
            self.authentication,
            partial(self._obey, controller),
            controller,
            broker.tasks.spawn,
            self.machine.clock,
            failure_delay=broker.config.connection_failed_authentication_delay_ms / 1000,
        )
        self._change_isr(controller)

    def _change_isr(self, controller: Controller) -> None:
        """Let the leaders among this broker's replicas ask for other in-sync replicas."""
        broker, replicas = self.broker, self.broker.replicas

        async def alter_partitions(
            requests: Sequence[AlterPartition],
        ) -> Sequence[AlterPartitionResult]:
            return await broker.controller.alter_partitions(
                broker.node_id, controller.broker_epoch, requests
            )

        broker.isr_changes = changes = IsrChanges(
            alter_partitions,
            replicas.partitions,
            max_lag_ms=replicas.ports.max_lag_ms,
            clock=self.machine.clock,
            random=self.machine.random,
            spawn=broker.tasks.spawn,
        )
        replicas.ports.ask = changes.ask
        replicas.on_brokers = changes.review
        changes.start()

    def leave(self) -> None:
        """Ask for nothing more by itself."""
        if self.broker.isr_changes is not None:
            self.broker.isr_changes.stop()

    async def close(self) -> None:
        if self.fetchers is not None:
            await self.fetchers.close()
        self.peers.close()

    async def _obey(self, controller: Controller, update: BrokerUpdate) -> Sequence[ReplicaError]:
        """The word of another broker's controller, which may be later than this one's."""
        controller.saw_epoch(update.controller_epoch)
        return await self.link.apply(update)

    async def _locate(
        self, controller: Controller, broker_id: int, fresh: bool
    ) -> BrokerRegistration | None:
        known = None if fresh else self.broker.metadata.brokers.get(broker_id)
        if known is not None:
            return known
        try:
            return await controller.registration_of(broker_id)
        except CoordinationError:
            return None


def _follower_ports(broker: Broker, controller: Controller, peers: Peers) -> FollowerPorts:
    config = broker.config

    async def connect(leader_id: int, pool: BufferPool) -> BrokerConnection:
        registration = broker.metadata.brokers.get(leader_id)
        if registration is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {leader_id} is not in the cluster now"
            )
        return await peers.open(registration, "fetcher", pool=pool)

    return FollowerPorts(
        node_id=broker.node_id,
        broker_epoch=lambda: controller.broker_epoch,
        clock=broker.clock,
        logs=broker.logs,
        connect=connect,
        settings=FetcherSettings(
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            timeout_s=config.replica_socket_timeout_ms / 1000,
            backoff_s=config.replica_fetch_backoff_ms / 1000,
        ),
        fetchers_per_leader=lambda: broker.config.num_replica_fetchers,
    )
