"""The controller's way to the brokers: its own is in the process, the others are peers."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.peers import Peers
from moldau.controller import BrokerLink, BrokerUpdate, ReplicaError
from moldau.coordination.znodes import BrokerRegistration
from moldau.wire.private import PrivateApi


class ClusterLink:
    """A ``BrokerLink`` to every broker of the cluster."""

    def __init__(self, node_id: int, local: BrokerLink, peers: Peers, *, within: float) -> None:
        """``within``: seconds that a broker has to apply an update."""
        self._node_id = node_id
        self._local = local
        self._peers = peers
        self._within = within

    async def apply(self, update: BrokerUpdate) -> Sequence[ReplicaError]:
        """What the controller has to say to this broker."""
        itself = BrokerRegistration(self._node_id, (), epoch=update.broker_epoch)
        return await self._local.update(itself, update)

    async def update(
        self, broker: BrokerRegistration, update: BrokerUpdate
    ) -> Sequence[ReplicaError]:
        if broker.id == self._node_id:
            return await self.apply(update)
        failed: list[ReplicaError] = await self._peers.call(
            broker,
            PrivateApi.BROKER_UPDATE,
            update,
            answer=list[ReplicaError],
            within=self._within,
        )
        return failed
