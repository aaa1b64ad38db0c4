"""The controller, wherever it is: here if this broker is in charge, else over the network.

Nothing is asked twice that may have been carried out. A broker that is not in charge, or that was
not reached at all, has done nothing: whoever is in charge by then is asked, until the time is up.
If the connection is lost in the middle nobody knows, and that is what REQUEST_TIMED_OUT says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from moldau.broker import controller_requests as messages
from moldau.broker.controller_port import ControllerClient
from moldau.broker.peers import Peers, UnreachableError
from moldau.controller import (
    AlterPartition,
    AlterPartitionResult,
    ClientQuotaAlteration,
    ClientQuotaResult,
    ConfigAlteration,
    ConfigResult,
    CreateTopicResult,
    DeleteTopicResult,
    Mutator,
    NewPartitions,
    NewReplicas,
    NewTopic,
    OngoingReassignment,
    PartitionResult,
    ProducerIdBlock,
    TopicReference,
    TopicResult,
)
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.machine.backoff import Backoff
from moldau.model import ElectionType, TopicPartition
from moldau.request_errors import ClientError, ConnectionLostError
from moldau.wire.private import PrivateApi

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

NOBODY: Final = -1
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25
"""Short: in-sync replicas wait for a new controller, too. A broker that cannot be reached is not
tried more often than ``Peers`` lets it be.
"""
_LOOK_AGAIN_S: Final = 0.25


class LocalController(ControllerClient, Protocol):
    """The controller's life on this broker: it knows who is in charge."""

    @property
    def is_active(self) -> bool: ...

    @property
    def controller_id(self) -> int:
        """The broker in charge, as last seen; -1 if nobody is."""
        ...


class _Message(Protocol[T_co]):
    async def put_to(self, controller: ControllerClient) -> T_co: ...


Locate = Callable[[int, bool], Awaitable[BrokerRegistration | None]]
"""Finds the registration of a broker; True: as the store has it now, not as it was last heard."""


class ForwardingController:
    """A ``ControllerClient`` for a broker that may or may not be in charge."""

    def __init__(
        self,
        local: LocalController,
        peers: Peers,
        locate: Locate,
        machine: Machine,
        *,
        within: float,
    ) -> None:
        """``within``: seconds that a request may take."""
        self._local = local
        self._peers = peers
        self._locate = locate
        self._machine = machine
        self._within = within

    def within(self, seconds: float) -> ForwardingController:
        """Returns the same for a request that has so much time."""
        return ForwardingController(
            self._local, self._peers, self._locate, self._machine, within=seconds
        )

    async def _ask(self, message: _Message[T], answer: Any) -> T:
        clock = self._machine.clock
        deadline = clock.monotonic() + self._within
        backoff = Backoff(clock, self._machine.random, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        has_failed = False
        while True:
            try:
                return await self._ask_once(message, answer, deadline, fresh=has_failed)
            except UnreachableError as error:
                failure = KafkaError(ErrorCode.NOT_CONTROLLER, error.message)
            except ClientError as error:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, error.message) from error
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                failure = error
            has_failed = True
            pause = backoff.next_delay()
            if clock.monotonic() + pause >= deadline:
                raise failure
            await asyncio.sleep(pause)

    async def _ask_once(
        self, message: _Message[T], answer: Any, deadline: float, *, fresh: bool
    ) -> T:
        local = self._local
        if local.is_active:
            return await message.put_to(local)
        controller = local.controller_id
        registration = await self._locate(controller, fresh) if controller >= 0 else None
        if registration is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        was_asked = asyncio.Event()
        call = self._peers.call(
            registration,
            PrivateApi.CONTROLLER_REQUEST,
            message,
            answer=answer,
            within=max(deadline - self._machine.clock.monotonic(), 0.0),
            on_asked=was_asked.set,
        )
        return await self._unless_replaced(controller, call, was_asked)

    async def _unless_replaced(
        self, controller: int, call: Coroutine[Any, Any, T], was_asked: asyncio.Event
    ) -> T:
        """Returns the answer of the one in charge. Who is replaced may never give it: it may be
        paused or cut off, which is why it was replaced.
        """
        asking = asyncio.ensure_future(call)
        try:
            while True:
                await asyncio.wait([asking], timeout=_LOOK_AGAIN_S)
                if asking.done():
                    return asking.result()
                if self._local.controller_id not in (controller, NOBODY):
                    failure = ConnectionLostError if was_asked.is_set() else UnreachableError
                    raise failure(f"Broker {controller} is not in charge any more")
        finally:
            asking.cancel()

    # What is asked

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[CreateTopicResult]:
        return await self._ask(
            messages.CreateTopics(topics, validate_only, mutator), list[CreateTopicResult]
        )

    async def auto_create(
        self, names: Sequence[str], *, mutator: Mutator | None = None
    ) -> list[CreateTopicResult]:
        return await self._ask(messages.AutoCreate(names, mutator), list[CreateTopicResult])

    async def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[TopicResult]:
        return await self._ask(
            messages.CreatePartitions(topics, validate_only, mutator), list[TopicResult]
        )

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, mutator: Mutator | None = None
    ) -> list[DeleteTopicResult]:
        return await self._ask(messages.DeleteTopics(topics, mutator), list[DeleteTopicResult])

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> list[ConfigResult]:
        return await self._ask(
            messages.AlterConfigs(alterations, validate_only), list[ConfigResult]
        )

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> list[PartitionResult]:
        return await self._ask(messages.ElectLeaders(kind, partitions), list[PartitionResult])

    async def alter_reassignments(
        self, targets: Sequence[NewReplicas], *, allow_replication_factor_change: bool = True
    ) -> list[PartitionResult]:
        return await self._ask(
            messages.AlterReassignments(targets, allow_replication_factor_change),
            list[PartitionResult],
        )

    async def ongoing_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> list[OngoingReassignment]:
        return await self._ask(messages.ListReassignments(partitions), list[OngoingReassignment])

    async def alter_client_quotas(
        self, alterations: Sequence[ClientQuotaAlteration], *, validate_only: bool = False
    ) -> list[ClientQuotaResult]:
        return await self._ask(
            messages.AlterClientQuotas(alterations, validate_only), list[ClientQuotaResult]
        )

    async def next_producer_id_block(self, broker: int) -> ProducerIdBlock:
        return await self._ask(messages.AllocateProducerIds(broker), ProducerIdBlock)

    async def offline_replicas(
        self, broker: int, broker_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None:
        await self._ask(messages.ReportOfflineReplicas(broker, broker_epoch, partitions), None)

    async def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        return await self._ask(
            messages.ControlledShutdown(broker, broker_epoch), list[TopicPartition]
        )

    async def alter_partitions(
        self, broker: int, broker_epoch: int, requests: Sequence[AlterPartition]
    ) -> list[AlterPartitionResult]:
        return await self._ask(
            messages.AlterPartitions(broker, broker_epoch, requests), list[AlterPartitionResult]
        )
