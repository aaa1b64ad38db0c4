"""The cluster as a client sees it: connections by broker, metadata, and who leads what.

Metadata is asked for when it is needed and kept until something proves it old (a leader error, a
lost connection). Each broker has one connection per *lane*: a long-poll fetch holds up everything
behind it on its connection, so reading has a lane of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Final, Literal

from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from moldau.client.address import parse_bootstrap, show
from moldau.client.backoff import Backoff
from moldau.client.connection import BrokerConnection
from moldau.client.errors import ConnectionLostError, NoBrokersError, UnknownTopicError, check
from moldau.client.metadata import NO_LEADER, ClusterMetadata, TopicInfo, read_metadata
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.make import make

logger: Final = logging.getLogger(__name__)

Lane = Literal["main", "fetch"]

_BOOTSTRAP: Final = -1
"""Stands for the node id of a connection to an address whose node is not known yet."""


class Cluster:
    """Shared by everything that talks to one cluster. Not thread-safe: one event loop."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "moldau",
        connect_timeout: float = 10.0,
        request_timeout: float = 30.0,
    ) -> None:
        self.client_id = client_id
        self.connect_timeout = connect_timeout
        self.request_timeout = request_timeout
        self.metadata = ClusterMetadata()
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        self._connections: dict[tuple[int, Lane], BrokerConnection] = {}
        self._opening: dict[tuple[int, Lane], asyncio.Lock] = {}
        self._closed = False

    async def start(self) -> None:
        """Reach one of the bootstrap servers and learn the brokers."""
        await self.refresh(())

    async def close(self) -> None:
        self._closed = True
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    async def connection(self, node_id: int, lane: Lane = "main") -> BrokerConnection:
        """The connection to a broker, opened if need be."""
        key = (node_id, lane)
        async with self._opening.setdefault(key, asyncio.Lock()):
            known = self._connections.get(key)
            if known is not None and not known.closed:
                return known
            node = self.metadata.nodes.get(node_id)
            if node is None:
                raise NoBrokersError(f"Broker {node_id} is not part of the cluster now")
            return await self._open(key, node.host, node.port)

    async def any_connection(self) -> BrokerConnection:
        """A connection to some broker: an open one, else a known node, else a bootstrap server."""
        for (_, lane), connection in self._connections.items():
            if lane == "main" and not connection.closed:
                return connection
        failures = []
        for node in self.metadata.nodes.values():
            try:
                return await self.connection(node.id)
            except KafkaError as error:
                failures.append(error.message)
        for host, port in self._bootstrap:
            try:
                return await self._open((_BOOTSTRAP, "main"), host, port)
            except ConnectionLostError as error:
                failures.append(error.message)
        raise NoBrokersError("; ".join(dict.fromkeys(failures)))

    async def controller_connection(self) -> BrokerConnection:
        """The broker that changes topics: the controller where it is a broker, else any broker.

        KRaft brokers name one of themselves and forward.
        """
        if self.metadata.controller_id in self.metadata.nodes:
            return await self.connection(self.metadata.controller_id)
        return await self.any_connection()

    async def refresh(
        self, topics: Collection[str] | None, *, allow_auto_creation: bool = False
    ) -> ClusterMetadata:
        """Ask for the metadata of these topics; None means all, an empty list only the brokers."""
        wanted = None
        if topics is not None:
            wanted = tuple(
                make(MetadataRequestTopic, topic_id=None, name=name) for name in sorted(topics)
            )
        request = make(
            MetadataRequest,
            topics=wanted,
            allow_auto_topic_creation=allow_auto_creation,
            include_topic_authorized_operations=False,
        )
        while True:
            connection = await self.any_connection()
            try:
                answer = await connection.request(ApiKey.METADATA, request)
                break
            except ConnectionLostError as error:
                # That connection is closed now, so the next turn takes another one.
                logger.debug("metadata request failed, trying another broker: %s", error)
        check(answer.error_code)
        self.metadata = self.metadata.updated(read_metadata(answer), topics)
        self._adopt_bootstrap_connection()
        return self.metadata

    async def topic(self, name: str, *, allow_auto_creation: bool = False) -> TopicInfo:
        """What is known about a topic, asked for at first use."""
        known = self.metadata.topics.get(name)
        if known is not None:
            return known
        backoff = Backoff(self.request_timeout)
        while True:
            await self.refresh([name], allow_auto_creation=allow_auto_creation)
            known = self.metadata.topics.get(name)
            if known is not None:
                return known
            error = self.metadata.errors.get(name) or UnknownTopicError(name)
            unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if unknown and not allow_auto_creation:
                raise UnknownTopicError(name)
            if not error.retriable:
                raise error
            await backoff.pause(error)

    async def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Node id and leader epoch of a partition's leader; raises LEADER_NOT_AVAILABLE if none."""
        info = (await self.topic(partition.topic)).partitions.get(partition.partition)
        if info is None:
            raise UnknownTopicError(partition.topic, partition.partition)
        if info.leader == NO_LEADER:
            self.forget(partition.topic)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
        return info.leader, info.leader_epoch

    def forget(self, topic: str) -> None:
        """What was known about this topic proved old: the next question goes to the cluster."""
        kept = {name: info for name, info in self.metadata.topics.items() if name != topic}
        self.metadata = replace(self.metadata, topics=kept)

    async def wait_for_leaders(self, topic: str, partitions: int = 1) -> TopicInfo:
        """Wait until a topic exists with at least that many partitions and each has a leader."""
        backoff = Backoff(self.request_timeout)
        while True:
            await self.refresh([topic])
            info = self.metadata.topics.get(topic)
            if info is not None and len(info.with_leader) == len(info.partitions) >= partitions:
                return info
            await backoff.pause(
                KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"Topic {topic!r} is not ready yet")
            )

    def _adopt_bootstrap_connection(self) -> None:
        """The node behind the bootstrap address is known now: the connection becomes its."""
        connection = self._connections.get((_BOOTSTRAP, "main"))
        if connection is None:
            return
        for node in self.metadata.nodes.values():
            key: tuple[int, Lane] = (node.id, "main")
            if (node.host, node.port) == connection.address and key not in self._connections:
                self._connections[key] = self._connections.pop((_BOOTSTRAP, "main"))
                return

    async def _open(self, key: tuple[int, Lane], host: str, port: int) -> BrokerConnection:
        if self._closed:
            raise ConnectionLostError("The client is closed")
        connection = await BrokerConnection.open(
            host,
            port,
            client_id=self.client_id,
            connect_timeout=self.connect_timeout,
            request_timeout=self.request_timeout,
        )
        logger.debug("connected to %s (%s)", show(host, port), key)
        self._connections[key] = connection
        return connection
