"""The cluster as a client sees it: connections by broker, metadata, and who leads what.

Metadata is asked for when it is needed and kept until something proves it old (a leader error, a
lost connection, ``metadata.max.age.ms``). Each broker has one connection per *lane*: a long-poll
fetch holds up everything behind it on its connection, so reading has a lane of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final, Literal

from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from moldau.client.backoff import Backoff
from moldau.client.connections import Connections
from moldau.client.errors import (
    AuthenticationError,
    ClosedError,
    ConnectionLostError,
    NoBrokersError,
    TimedOutError,
    UnknownTopicError,
)
from moldau.client.metadata import NO_LEADER, ClusterMetadata, TopicInfo, read_metadata
from moldau.client.settings import CommonSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.machine.real import this_machine
from moldau.model import Node, TopicPartition
from moldau.net.address import show
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import check
from moldau.wire.api import ApiKey
from moldau.wire.make import make

logger: Final = logging.getLogger(__name__)

Lane = Literal["main", "fetch", "coordinator", "join", "produce"]

_BOOTSTRAP: Final = -1
"""Stands for the node id of a connection to an address whose node is not known yet."""

_MOST_HANG_UPS: Final = 3
"""So many connections in a row may end at their first request before somebody gets to know."""


class Cluster:
    """Shared by everything that talks to one cluster. Not thread-safe: one event loop."""

    def __init__(self, settings: CommonSettings, machine: Machine | None = None) -> None:
        self.machine = machine or this_machine()
        self.settings = settings
        self.client_id = settings.client_id
        self.request_timeout = settings.request_timeout_ms / 1000
        self.metadata = ClusterMetadata()
        self.allow_auto_creation = False
        """Whether metadata that is asked for in the background may create topics."""
        self.topics_of_interest: Callable[[], Collection[str] | None] = lambda: list(
            self.metadata.topics
        )
        """What is asked for anew when metadata gets old; None means all topics."""
        self.on_update: list[Callable[[ClusterMetadata], object]] = []
        """Called with every new picture of the cluster."""
        self._connections = Connections(settings, self.machine)
        self._refreshing: asyncio.Task[None] | None = None
        self._age_timer: asyncio.TimerHandle | None = None
        self._updated_at = 0.0
        self._stranded = False
        """Whether no known broker could be reached: said once, not at every attempt."""

    async def start(self) -> None:
        """Reach one of the bootstrap servers and learn the brokers."""
        await self.refresh(())

    async def close(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self._connections.close()

    def abandon(self) -> None:
        """Close without waiting for the end."""
        self._connections.abandon()

    def backoff(self, timeout: float) -> Backoff:
        """Returns the pauses between attempts at something that may take this long in all."""
        return Backoff(self.machine.random, timeout)

    # Connections

    async def connection(self, node_id: int, lane: Lane = "main") -> BrokerConnection:
        """The connection to a broker, opened if need be, after a pause if it failed just before."""
        node = self.metadata.nodes.get(node_id)
        if node is None:
            raise NoBrokersError(f"Broker {node_id} is not part of the cluster now")
        return await self._connections.get((node_id, lane), node.host, node.port)

    def open_connection(self, node_id: int, lane: Lane = "main") -> BrokerConnection | None:
        """The connection to a broker if there is one now."""
        return self._connections.open_one((node_id, lane))

    @property
    def is_connected(self) -> bool:
        """Whether some broker is there to talk to, as far as one can tell without asking."""
        return self._connections.least_loaded("main") is not None

    async def any_connection(self) -> BrokerConnection:
        """A connection to some broker: an open one, else a known node, else a bootstrap server."""
        open_one = self._connections.least_loaded("main")
        if open_one is not None:
            return open_one
        failures = []
        nodes = self.metadata.nodes
        # Those that may be tried at once before those that failed lately.
        not_before = self._connections.not_before
        for node in sorted(nodes.values(), key=lambda one: not_before(one.host, one.port)):
            try:
                connection = await self.connection(node.id)
            except (AuthenticationError, ClosedError):
                raise
            except KafkaError as error:
                failures.append(error.message)
            else:
                self._stranded = False
                return connection
        if nodes and self.settings.metadata_recovery_strategy == "none":
            raise NoBrokersError("; ".join(dict.fromkeys(failures)))
        if nodes and not self._stranded:
            self._stranded = True
            logger.warning(
                "none of the %d brokers known can be reached; starting over from bootstrap.servers",
                len(nodes),
            )
        late = 0
        servers = self.settings.bootstrap_servers
        for host, port in sorted(servers, key=lambda one: not_before(*one)):
            try:
                return await self._connections.get((_BOOTSTRAP, "main"), host, port)
            except (ConnectionLostError, TimedOutError) as error:
                late += isinstance(error, TimedOutError)
                failures.append(error.message)
        if late == len(servers):
            raise TimedOutError("; ".join(dict.fromkeys(failures)))
        raise NoBrokersError("; ".join(dict.fromkeys(failures)))

    async def controller_connection(self) -> BrokerConnection:
        """The broker that changes topics: the controller where it is a broker, else any broker.

        KRaft brokers name one of themselves and forward.
        """
        if self.metadata.controller_id in self.metadata.nodes:
            return await self.connection(self.metadata.controller_id)
        return await self.any_connection()

    # Metadata

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
        hung_up = 0
        while True:
            connection = await self.any_connection()
            try:
                answer = await connection.request(ApiKey.METADATA, request)
                break
            except ConnectionLostError as error:
                # That connection is closed now, so the next turn takes another one.
                logger.debug("metadata request failed, trying another broker: %s", error)
                hung_up += not connection.is_proven
                if hung_up == _MOST_HANG_UPS:
                    raise self._hung_up(error) from error
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            logger.warning("%s wants this client to start over from bootstrap.servers", connection)
            await self._start_over()
        check(answer.error_code)
        self._set(self.metadata.updated(read_metadata(answer), topics))
        self._adopt_bootstrap_connection()
        self._arm_age_timer()
        return self.metadata

    def _hung_up(self, error: ConnectionLostError) -> ConnectionLostError:
        """Brokers take connections, and end them at the first question, again and again."""
        hint = ""
        if not self.settings.uses_sasl:
            wanted = "SASL_SSL" if self.settings.uses_tls else "SASL_PLAINTEXT"
            hint = f"; a listener that wants a login does that (security.protocol={wanted})"
        return ConnectionLostError(f"{error.message}, at the first request{hint}")

    def request_update(self, *topics: str) -> None:
        """Something proved the metadata old: ask anew in the background, until it succeeds."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._update(topics), name="metadata update")

    async def topic(
        self, name: str, *, allow_auto_creation: bool = False, within: float | None = None
    ) -> TopicInfo:
        """What is known about a topic, asked for at first use."""
        known = self.metadata.topics.get(name)
        if known is not None:
            return known
        backoff = self.backoff(self.request_timeout if within is None else within)
        while True:
            try:
                await self.refresh([name], allow_auto_creation=allow_auto_creation)
            except KafkaError as failure:
                if within is None or not failure.retriable:
                    raise
                await backoff.pause(failure)
                continue
            known = self.metadata.topics.get(name)
            if known is not None:
                return known
            error = self.metadata.errors.get(name) or UnknownTopicError(name)
            unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if unknown and not allow_auto_creation:
                raise UnknownTopicError(name)
            if not error.retriable:
                raise error
            await backoff.pause(UnknownTopicError(name) if unknown else error)

    async def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Node id and leader epoch of a partition's leader; raises LEADER_NOT_AVAILABLE if none."""
        info = (await self.topic(partition.topic)).partitions.get(partition.partition)
        if info is None:
            raise UnknownTopicError(partition.topic, partition.partition)
        if info.leader == NO_LEADER:
            self.forget(partition.topic)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
        return info.leader, info.leader_epoch

    def learn_leader(
        self, partition: TopicPartition, leader: int, leader_epoch: int, nodes: Iterable[Node]
    ) -> bool:
        """Take a broker's word for who leads a partition now; False if that is no news."""
        updated = self.metadata.with_leader(partition, leader, leader_epoch, nodes)
        if updated is self.metadata or leader not in updated.nodes:
            return False
        self._set(updated)
        return True

    def forget(self, topic: str) -> None:
        """What was known about this topic proved old: the next question goes to the cluster."""
        kept = {name: info for name, info in self.metadata.topics.items() if name != topic}
        self.metadata = replace(self.metadata, topics=kept)

    async def wait_for_leaders(self, topic: str, partitions: int = 1) -> TopicInfo:
        """Wait until a topic exists with at least that many partitions and each has a leader."""
        backoff = self.backoff(self.request_timeout)
        while True:
            await self.refresh([topic])
            info = self.metadata.topics.get(topic)
            if info is not None and len(info.with_leader) == len(info.partitions) >= partitions:
                return info
            await backoff.pause(
                KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"Topic {topic!r} is not ready yet")
            )

    async def _update(self, topics: tuple[str, ...]) -> None:
        loop = asyncio.get_running_loop()
        settings = self.settings
        started = loop.time()
        pauses = Backoff(
            self.machine.random,
            float("inf"),
            settings.retry_backoff_ms / 1000,
            settings.retry_backoff_max_ms / 1000,
        )
        # What is asked for over and over (a partition without a leader) is asked for in peace.
        pause = self._updated_at + settings.retry_backoff_ms / 1000 - started
        if pause > 0:
            await asyncio.sleep(pause)
        while True:
            interest = self.topics_of_interest()
            wanted = None if interest is None else {*interest, *topics}
            try:
                await self.refresh(wanted, allow_auto_creation=self.allow_auto_creation)
                return
            except KafkaError as error:
                logger.info("metadata cannot be had, trying again: %s", error.message)
                patience = settings.metadata_recovery_rebootstrap_trigger_ms / 1000
                if loop.time() - max(self._updated_at, started) > patience:
                    await self._start_over()
                await pauses.pause(error)

    def _set(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        for listener in self.on_update:
            listener(metadata)

    def _arm_age_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._updated_at = loop.time()
        if self._age_timer is not None:
            self._age_timer.cancel()
        age = self.settings.metadata_max_age_ms / 1000
        self._age_timer = loop.call_later(age, self.request_update)

    async def _start_over(self) -> None:
        if self.settings.metadata_recovery_strategy == "none":
            return
        self.metadata = replace(self.metadata, nodes={})
        await self._connections.drop_all()

    def _adopt_bootstrap_connection(self) -> None:
        """The node behind the bootstrap address is known now: the connection becomes its."""
        for node in self.metadata.nodes.values():
            if self._connections.rename((_BOOTSTRAP, "main"), (node.id, "main"), node):
                logger.debug(
                    "bootstrap server %s is broker %d", show(node.host, node.port), node.id
                )
                return
