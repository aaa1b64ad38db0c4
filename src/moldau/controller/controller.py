"""The controller's life on one broker: register, stand for election, serve while in charge.

Every broker runs one. The first to create the ephemeral node /controller is in charge; the others
watch that node and stand again when it goes. All that a controller does runs on one queue, in
order: watch callbacks only post to it. Losing the session ends the office at once; so does finding,
on any write, that the controller epoch has moved on. A write of which nobody knows whether it was
made ends the office too: the next one, this broker's own perhaps, reads what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from moldau.controller import writes
from moldau.controller.active import ActiveController, ControllerMovedError
from moldau.controller.client_quotas import ClientQuotaAdmin
from moldau.controller.config_admin import ConfigAdmin
from moldau.controller.context import ControllerContext
from moldau.controller.leader_elections import LeaderElections
from moldau.controller.link import BrokerLink
from moldau.controller.reassignments import Reassignments
from moldau.controller.requests import (
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
from moldau.controller.sender import Answer, Delivery, SenderPorts
from moldau.controller.settings import ControllerSettings
from moldau.controller.topic_admin import Creation, TopicAdmin
from moldau.controller.topic_deletion import TopicDeletion
from moldau.coordination import cluster, paths, znodes
from moldau.coordination.errors import (
    BadVersionError,
    ConnectionLostError,
    CoordinationError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from moldau.coordination.event_queue import EventQueue, QueueClosedError
from moldau.coordination.registration import register
from moldau.coordination.store import CoordinationStore, Create, Delete, SetData, WatchEvent
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import Clock, steady_ms
from moldau.model import ElectionType, TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

_REGISTRATION_PATIENCE: Final = 1.5
"""Session timeouts for which a broker waits for what its earlier life has registered to go."""


_APPLIED_WITHIN_S: Final = 1.0
"""For how long a request that was decided waits for brokers to apply it. A broker that is slower
than that hears of it later.
"""


class _Office(NamedTuple):
    """What only the controller in charge has."""

    active: ActiveController
    topics: TopicAdmin
    deletion: TopicDeletion
    configs: ConfigAdmin
    elections: LeaderElections
    reassignments: Reassignments
    client_quotas: ClientQuotaAdmin


class Controller:
    """``store`` is this broker's own session; ``stop`` ends it."""

    def __init__(
        self,
        store: CoordinationStore,
        registration: BrokerRegistration,
        link: BrokerLink,
        settings: ControllerSettings,
        *,
        clock: Clock,
        random: Random,
        new_topic_id: Callable[[], UUID],
        on_session_lost: Callable[[], object] | None = None,
    ) -> None:
        self._store = store
        self._registration = registration
        self._link = link
        self._settings = settings
        self._clock = clock
        self._random = random
        self._new_topic_id = new_topic_id
        self._on_session_lost = on_session_lost
        self._queue = EventQueue(f"controller {registration.id}")
        self._office: _Office | None = None
        self._lost = False
        self._barred = False
        self.controller_id = -1
        """The broker in charge, as last seen."""

    # Life

    async def start(self) -> None:
        """Register the broker and stand for election; returns when there is a controller.

        If this broker wins, it has told itself everything by then.
        """
        await cluster.prepare(self._store)
        self._store.on_expired(self._session_lost)
        await self._register()
        await self._queue.submit(self._stand)
        if self._office is not None:
            await self._office.active.sender.flush([self._registration.id]).wait()

    async def stop(self) -> None:
        """Leave the cluster: whoever else is there takes over."""
        self._lost = True
        await self._queue.close()
        self._retire()
        await self._store.close()

    async def settled(self) -> None:
        """Wait until everything that was noticed so far has been dealt with, and brokers that can
        be reached know of it.
        """
        while True:
            await self._queue.drain()
            if self._office is None or not self._office.active.sender.is_busy:
                return
            await self._office.active.sender.drain()

    @property
    def is_active(self) -> bool:
        return self._office is not None

    @property
    def epoch(self) -> int:
        """The controller epoch while in charge, else -1."""
        return self._office.active.context.epoch if self._office is not None else -1

    @property
    def broker_epoch(self) -> int:
        """Of this life of the broker, once registered."""
        return self._registration.epoch

    @property
    def context(self) -> ControllerContext | None:
        """What is known while in charge, to be read only."""
        return self._office.active.context if self._office is not None else None

    async def _register(self) -> None:
        path = paths.broker_id(self._registration.id)
        data = znodes.encode_broker(self._registration, self._clock.now_ms())
        patience_s = _REGISTRATION_PATIENCE * self._settings.session_timeout_ms / 1000
        try:
            stat = await register(self._store, path, data, patience_s=patience_s)
        except NodeExistsError as error:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"Another broker with id {self._registration.id} is running in this cluster.",
            ) from error
        self._registration = msgspec.structs.replace(self._registration, epoch=stat.czxid)

    # Election

    async def _stand(self) -> None:
        """See who is in charge; if nobody is, try to be."""
        while not self._lost:
            stat = await self._store.exists(paths.CONTROLLER, self._controller_changed)
            if stat is not None:
                owns = stat.ephemeral_owner == self._store.session_id
                if owns and self._office is None:
                    await self._resign()
                    continue
                try:
                    data, _ = await self._store.get(paths.CONTROLLER)
                except NoNodeError:
                    continue
                self.controller_id = znodes.decode_controller(data)
                if not owns:
                    self._retire()
                return
            self._retire()
            context = None if self._barred else await self._win()
            if context is not None:
                await self._take_office(context)
            elif self._barred:
                self.controller_id = -1
                return

    async def _win(self) -> ControllerContext | None:
        """Create /controller and raise the epoch, both or neither.

        None if somebody was faster, or if nobody knows what became of it.
        """
        store = self._store
        mine = znodes.encode_controller(self._registration.id, self._clock.now_ms())
        try:
            with suppress(NodeExistsError):
                await store.create(paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))
            data, stat = await store.get(paths.CONTROLLER_EPOCH)
            epoch = znodes.decode_controller_epoch(data) + 1
            await store.multi(
                [
                    Create(paths.CONTROLLER, mine, ephemeral=True),
                    SetData(
                        paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), stat.version
                    ),
                ]
            )
        except (NodeExistsError, BadVersionError, ConnectionLostError):
            return None
        return ControllerContext(epoch, stat.version + 1)

    async def _take_office(self, context: ControllerContext) -> None:
        active = ActiveController(
            self._registration.id,
            self._store,
            SenderPorts(
                self._link,
                self._clock,
                lambda answer: self._answered(active, answer),
                lambda: self._deposed(active),
            ),
            self._settings,
            self._random,
            self._new_topic_id,
            context,
            partial(steady_ms, self._clock),
        )
        self.controller_id = self._registration.id
        deletion = TopicDeletion(active)
        office = self._office = _Office(
            active,
            TopicAdmin(active, deletion),
            deletion,
            ConfigAdmin(active, self._clock.now_ms),
            LeaderElections(active),
            Reassignments(active),
            ClientQuotaAdmin(active),
        )
        try:
            await active.take_over(self._brokers_changed, self._deletions_changed)
            await office.deletion.resume()
        except (ControllerMovedError, ConnectionLostError):
            self._retire()
        except Exception:
            # Somebody else may fare better; this broker does not try again before it restarts.
            self._barred = True
            self._retire()
            with suppress(CoordinationError):
                await self._store.multi([writes.fence(context), Delete(paths.CONTROLLER)])
            raise

    async def _resign(self) -> None:
        """Give back the node of an office that this broker does not hold: it was lost, or won,
        by a write of which nobody knew whether it was made.
        """
        with suppress(NoNodeError, ConnectionLostError):
            await self._store.delete(paths.CONTROLLER)

    def _retire(self) -> None:
        if self._office is not None:
            logger.info("Controller %d retires from epoch %d", self._registration.id, self.epoch)
            self._office.active.sender.close()
            self._office = None

    # Watches

    def _controller_changed(self, _event: WatchEvent) -> None:
        self._queue.post(self._stand)

    def _brokers_changed(self, _event: WatchEvent) -> None:
        async def react() -> None:
            if self._office is not None:
                await self._office.active.brokers_changed(self._brokers_changed)
            if self._office is not None:
                await self._office.deletion.resume()

        self._queue.post(lambda: self._in_office(react))

    def _deletions_changed(self, _event: WatchEvent) -> None:
        async def react() -> None:
            if self._office is not None:
                await self._office.deletion.markers_changed(self._deletions_changed)

        self._queue.post(lambda: self._in_office(react))

    # What brokers say

    def _answered(self, active: ActiveController, answer: Answer) -> None:
        """A broker could not serve replicas, or has stopped some."""

        async def react() -> None:
            office = self._office
            if office is not None and office.active is active:
                await office.deletion.answered(answer)
                await active.replicas_failed(answer)

        self._queue.post(lambda: self._in_office(react))

    def _deposed(self, active: ActiveController) -> None:
        """A broker obeys a later controller: this one has not heard of it yet."""

        async def give_up() -> None:
            if self._office is not None and self._office.active is active:
                self._retire()
                await self._stand()

        self._queue.post(give_up)

    def _session_lost(self) -> None:
        """No longer in charge from this moment, whatever is still queued."""
        self._lost = True
        self._retire()
        self.controller_id = -1
        if self._on_session_lost is not None:
            self._on_session_lost()

    async def _in_office(self, duty: Callable[[], Awaitable[T]]) -> T:
        try:
            return await duty()
        except (ControllerMovedError, ConnectionLostError) as error:
            logger.info("Controller %d gives up: %s", self._registration.id, error)
            self._retire()
            self._queue.post(self._stand)
            raise

    # Requests

    async def _request(self, duty: Callable[[_Office], Awaitable[T]]) -> T:
        """Do it in office, in turn. Raises nothing but KafkaError, as from another broker."""

        async def in_charge() -> T:
            if self._office is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return await duty(self._office)

        try:
            return await self._queue.submit(lambda: self._in_office(in_charge))
        except KafkaError:
            raise
        except (ControllerMovedError, SessionExpiredError, QueueClosedError) as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
        except ConnectionLostError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except StoreUnavailableError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except Exception as error:
            logger.exception("Controller %d failed at a request", self._registration.id)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    async def _announced(self, duty: Callable[[_Office], Awaitable[T]]) -> T:
        """Do it in office, in turn; returns when brokers that answer soon have applied it."""

        async def tell(office: _Office) -> tuple[T, Delivery]:
            return await duty(office), office.active.sender.flush()

        result, delivery = await self._request(tell)
        await delivery.wait(_APPLIED_WITHIN_S)
        return result

    async def _answers_heeded(self) -> None:
        """Returns when what brokers have answered so far has been dealt with, and announced."""

        async def nothing(_office: _Office) -> None: ...

        with suppress(KafkaError):  # what was decided is written: the next controller goes on
            await self._announced(nothing)

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[CreateTopicResult]:
        """Returns one result per name, in order."""
        offices: list[_Office] = []

        async def create(office: _Office) -> Creation:
            offices.append(office)
            return await office.topics.create_topics(
                topics, validate_only=validate_only, mutator=mutator
            )

        creation = await self._request(create)
        try:
            await creation.delivery.wait(_APPLIED_WITHIN_S)
            if not creation.has_failed:
                return creation.decided
            results = await self._announced(lambda office: office.topics.confirm(creation))
        finally:
            offices[0].topics.release(creation)
        await self._answers_heeded()
        return results

    async def auto_create(
        self, names: Sequence[str], *, mutator: Mutator | None = None
    ) -> list[CreateTopicResult]:
        """Topics with the default counts, for names that a client mentioned."""
        topics = [NewTopic(name=name) for name in dict.fromkeys(names)]
        return await self.create_topics(topics, mutator=mutator)

    async def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        mutator: Mutator | None = None,
    ) -> list[TopicResult]:
        growth = await self._announced(
            lambda office: office.topics.create_partitions(
                topics, validate_only=validate_only, mutator=mutator
            )
        )
        if growth.has_failed:
            await self._answers_heeded()
        return growth.results

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, mutator: Mutator | None = None
    ) -> list[DeleteTopicResult]:
        """Raises TOPIC_DELETION_DISABLED where that is so."""
        results = await self._announced(
            lambda office: office.deletion.delete_topics(topics, mutator=mutator)
        )
        await self._answers_heeded()
        return results

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> list[ConfigResult]:
        """Returns one result per alteration, in order."""
        return await self._announced(
            lambda office: office.configs.alter(alterations, validate_only=validate_only)
        )

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> list[PartitionResult]:
        """Returns one result per partition, in order; None asks for every partition."""
        return await self._announced(lambda office: office.elections.elect(kind, partitions))

    async def alter_reassignments(
        self, targets: Sequence[NewReplicas], *, allow_replication_factor_change: bool = True
    ) -> list[PartitionResult]:
        """Returns one result per target, in order."""

        async def alter(office: _Office) -> list[PartitionResult]:
            return office.reassignments.alter(
                targets, allow_replication_factor_change=allow_replication_factor_change
            )

        return await self._request(alter)

    async def ongoing_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> list[OngoingReassignment]:
        """Returns which of these partitions, or of all, are on the move."""

        async def ongoing(office: _Office) -> list[OngoingReassignment]:
            return office.reassignments.ongoing(partitions)

        return await self._request(ongoing)

    async def alter_client_quotas(
        self, alterations: Sequence[ClientQuotaAlteration], *, validate_only: bool = False
    ) -> list[ClientQuotaResult]:
        """Returns one result per entity."""
        return await self._announced(
            lambda office: office.client_quotas.alter(alterations, validate_only=validate_only)
        )

    async def alter_partitions(
        self, broker: int, broker_epoch: int, requests: Sequence[AlterPartition]
    ) -> list[AlterPartitionResult]:
        """A leader's changes of its in-sync replicas; raises STALE_BROKER_EPOCH."""
        return await self._request(
            lambda office: office.active.alter_partitions(broker, broker_epoch, requests)
        )

    async def offline_replicas(self, broker: int, partitions: Sequence[tuple[str, int]]) -> None:
        """A broker's disk failed under these replicas."""
        await self._request(lambda office: office.active.offline_replicas(broker, partitions))

    async def next_producer_id_block(self, broker: int) -> ProducerIdBlock:
        """Returns a block of producer ids for a broker."""
        return await self._request(lambda office: office.active.next_producer_id_block(broker))
