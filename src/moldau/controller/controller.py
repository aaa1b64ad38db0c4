"""The controller's life on one broker: join the cluster, stand for election, serve while in charge.

Every broker runs one. The first to create the ephemeral node /controller is in charge; the others
watch that node and stand again when it goes. All that a controller does runs on one queue, in
order: watch callbacks only post to it. Losing the session ends the office at once; so does finding,
on any write or in any answer, that the controller epoch has moved on. A write of which nobody knows
whether it was made ends the office too: the next one, this broker's own perhaps, reads what there
is. None of this ends the broker's part in the cluster: it joins again (``membership``) and stands
again, and what fails otherwise is tried again after a while.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final, NamedTuple, Self, TypeVar
from uuid import UUID

from moldau.controller import candidacy
from moldau.controller.active import ActiveController, ControllerMovedError
from moldau.controller.client_quotas import ClientQuotaAdmin
from moldau.controller.config_admin import ConfigAdmin
from moldau.controller.context import ControllerContext
from moldau.controller.courier import Answer, Delivery, SenderPorts
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
from moldau.controller.settings import ControllerSettings
from moldau.controller.topic_admin import Creation, TopicAdmin
from moldau.controller.topic_deletion import FIRST_RETRY_S, LONGEST_RETRY_S, TopicDeletion
from moldau.coordination import paths, znodes
from moldau.coordination.errors import (
    ConnectionLostError,
    CoordinationError,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from moldau.coordination.event_queue import EventQueue, QueueClosedError
from moldau.coordination.membership import Describe, Membership, OpenSession
from moldau.coordination.store import CoordinationStore, WatchEvent
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.backoff import Backoff
from moldau.machine.clock import Clock, Timer, steady_ms
from moldau.model import ElectionType, TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

_OVER = (ControllerMovedError, ConnectionLostError, SessionExpiredError)
"""What ends an office: somebody else has it, or nobody knows what became of a write."""
_SILENCE_S: Final = 1.0
"""For how long a request that was decided waits for a broker that says nothing. It will hear of it
later.
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
    """``open_session`` opens this broker's sessions on the store, one after the other; ``stop``
    ends the last. ``describe`` says where the broker is found, each time that it registers.
    """

    def __init__(
        self,
        broker_id: int,
        open_session: OpenSession,
        describe: Describe,
        link: BrokerLink,
        settings: ControllerSettings,
        *,
        clock: Clock,
        random: Random,
        new_topic_id: Callable[[], UUID],
        on_session_lost: Callable[[], object] | None = None,
    ) -> None:
        self._id = broker_id
        self._link = link
        self._settings = settings
        self._clock = clock
        self._random = random
        self._new_topic_id = new_topic_id
        self._on_session_lost = on_session_lost
        self._membership = Membership(
            open_session,
            describe,
            settings.session_timeout_ms,
            clock,
            random,
            on_left=self._session_lost,
            on_joined=self._stand_again,
        )
        self._queue = EventQueue(f"controller {broker_id}")
        self._office: _Office | None = None
        self._backoff = Backoff(clock, random)
        self._rest: Timer | None = None
        """Until it is over this broker does not try to be in charge: others may fare better."""
        self._closed = False
        self.controller_id = -1
        """The broker in charge, as last seen."""

    # Life

    async def start(self) -> None:
        """Register the broker and stand for election; returns when there is a controller.

        If this broker wins, it has told itself everything by then.
        """
        await self._membership.join()
        with suppress(SessionExpiredError):  # it joins again, and stands again
            await self._queue.submit(self._contend)
        if self._office is not None:
            await self._office.active.sender.flush([self._id]).wait(_SILENCE_S)

    async def stop(self) -> None:
        """Leave the cluster: whoever else is there takes over."""
        self._closed = True
        if self._rest is not None:
            self._rest.cancel()
        await self._membership.leave()
        await self._queue.close()
        self._retire()

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
        """As this broker last registered; -1 before it did."""
        return self._membership.broker_epoch

    @property
    def reaches_store(self) -> bool:
        """Whether this broker's session on the store is connected."""
        return self._membership.store.is_connected

    @property
    def context(self) -> ControllerContext | None:
        """What is known while in charge, to be read only."""
        return self._office.active.context if self._office is not None else None

    async def registration_of(self, broker: int) -> BrokerRegistration | None:
        """Returns where another broker is, as the store has it now; raises CoordinationError."""
        (found,) = await self._membership.store.get_many([paths.broker_id(broker)])
        return None if found is None else znodes.decode_broker(broker, found[0], found[1].czxid)

    # Election

    async def _stand(self) -> None:
        """See who is in charge; if nobody is, try to be. If that fails, try again later."""
        try:
            await self._contend()
        except SessionExpiredError:
            pass  # whoever joins again stands again
        except Exception as error:
            logger.error("Controller %d cannot take part in elections now: %s", self._id, error)
            self._take_a_rest()

    async def _contend(self) -> None:
        store = self._membership.store
        while not self._closed:
            stat = await store.exists(paths.CONTROLLER, self._controller_changed)
            if stat is not None:
                owns = stat.ephemeral_owner == store.session_id
                if owns and self._office is None:
                    await candidacy.resign(store)
                    continue
                try:
                    data, _ = await store.get(paths.CONTROLLER)
                except NoNodeError:
                    continue
                if not owns:
                    self._retire()
                self.controller_id = znodes.decode_controller(data)
                return
            self._retire()
            if self._rest is not None:
                self.controller_id = -1
                return
            context = await candidacy.win(store, self._id, self._clock.now_ms())
            if context is not None:
                await self._take_office(store, context)

    async def _take_office(self, store: CoordinationStore, context: ControllerContext) -> None:
        active = ActiveController(
            self._id,
            store,
            SenderPorts(
                self._link,
                self._clock,
                self._random,
                lambda answer: self._answered(active, answer),
                lambda: self._deposed(active),
            ),
            self._settings,
            self._random,
            self._new_topic_id,
            context,
            partial(steady_ms, self._clock),
        )
        self.controller_id = self._id
        deletion = TopicDeletion(
            active,
            Backoff(self._clock, self._random, FIRST_RETRY_S, LONGEST_RETRY_S),
            lambda delay, duty: self._later(active, delay, duty),
        )
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
        except _OVER as error:
            logger.info("Controller %d could not take over: %s", self._id, error)
            self._retire()
        except Exception:
            self._retire()
            self._take_a_rest()
            await candidacy.hand_back(store, context)
            raise
        else:
            self._backoff.reset()
            self._balance_later(office)

    def _retire(self) -> None:
        if self._office is not None:
            logger.info("Controller %d retires from epoch %d", self._id, self.epoch)
            self._office.active.sender.close()
            self._office = None
            self.controller_id = -1

    def _take_a_rest(self) -> None:
        """Try nothing for a while, then stand again."""
        if self._rest is None and not self._closed:
            self._rest = self._clock.call_later(self._backoff.next_delay(), self._rested)

    def _rested(self) -> None:
        self._rest = None
        self._queue.post(self._stand)

    def saw_epoch(self, epoch: int) -> None:
        """Somebody knows of a controller with this epoch: if it is a later one, this one is
        deposed.
        """
        if self._office is not None and epoch > self.epoch:
            logger.info("Controller %d learns of controller epoch %d", self._id, epoch)
            self._retire()
            self._queue.post(self._stand)

    # Watches

    def _controller_changed(self, _event: WatchEvent) -> None:
        self._queue.post(self._stand)

    def _brokers_changed(self, _event: WatchEvent) -> None:
        async def react(office: _Office) -> None:
            await office.active.brokers_changed(self._brokers_changed)
            await office.deletion.resume()

        self._post_duty(react)

    def _deletions_changed(self, _event: WatchEvent) -> None:
        self._post_duty(lambda office: office.deletion.markers_changed(self._deletions_changed))

    def _post_duty(self, duty: Callable[[_Office], Awaitable[object]]) -> None:
        """What has to be done, whoever else comes or goes: if it fails, it is tried again."""

        async def attempt() -> None:
            office = self._office
            if office is None:
                return
            try:
                await self._in_office(duty)
            except _OVER:
                return
            except Exception as error:
                # The store says why; where this happened is no news.
                trace = None if isinstance(error, CoordinationError) else error
                logger.error("Controller %d failed at a duty: %s", self._id, error, exc_info=trace)
                self._clock.call_later(self._backoff.next_delay(), again)
            else:
                self._backoff.reset()

        def again() -> None:
            self._queue.post(attempt)

        self._queue.post(attempt)

    # What brokers say

    def _answered(self, active: ActiveController, answer: Answer) -> None:
        """A broker could not serve replicas, or has stopped some."""

        async def react(office: _Office) -> None:
            if office.active is active:
                await office.deletion.answered(answer)
                await active.replicas_failed(answer)

        self._post_duty(react)

    def _deposed(self, active: ActiveController) -> None:
        """A broker obeys a later controller: this one has not heard of it yet."""

        async def give_up() -> None:
            if self._office is not None and self._office.active is active:
                self._retire()
                await self._stand()

        self._queue.post(give_up)

    def _later(
        self, active: ActiveController, delay_s: float, duty: Callable[[], Awaitable[None]]
    ) -> None:
        """Do something after a while, if this office lasts until then."""

        async def present(office: _Office) -> None:
            if office.active is active:
                await duty()

        self._clock.call_later(delay_s, lambda: self._post_duty(present))

    def _balance_later(self, office: _Office) -> None:
        """Have preferred leaders lead again, every so often, for as long as the office lasts."""
        settings = self._settings

        async def balance() -> None:
            await office.elections.balance(settings.leader_imbalance_percentage)
            self._balance_later(office)

        if settings.auto_leader_rebalance_enable:
            self._later(office.active, settings.leader_imbalance_check_interval_s, balance)

    def _session_lost(self) -> None:
        """No longer in charge from this moment, whatever is still queued."""
        self._retire()
        self.controller_id = -1
        if self._on_session_lost is not None:
            self._on_session_lost()

    def _stand_again(self) -> None:
        """The broker has joined again."""
        self._queue.post(self._stand)

    async def _in_office(self, duty: Callable[[_Office], Awaitable[T]]) -> T:
        if self._office is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        try:
            return await duty(self._office)
        except _OVER as error:
            logger.info("Controller %d gives up: %s", self._id, error)
            self._retire()
            self._queue.post(self._stand)
            raise

    # Requests

    def within(self, _seconds: float) -> Self:
        """Returns itself: who is in charge, or is not, knows it at once."""
        return self

    async def _request(self, duty: Callable[[_Office], Awaitable[T]]) -> T:
        """Do it in office, in turn. Raises nothing but KafkaError, as from another broker."""
        try:
            return await self._queue.submit(lambda: self._in_office(duty))
        except KafkaError:
            raise
        except (ControllerMovedError, SessionExpiredError, QueueClosedError) as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
        except ConnectionLostError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except StoreUnavailableError as error:
            self._post_duty(lambda office: office.active.complete_creations())
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except Exception as error:
            logger.exception("Controller %d failed at a request", self._id)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    async def _announced(self, duty: Callable[[_Office], Awaitable[T]]) -> T:
        """Do it in office, in turn; returns when brokers that answer soon have applied it."""

        async def tell(office: _Office) -> tuple[T, Delivery]:
            return await duty(office), office.active.sender.flush()

        result, delivery = await self._request(tell)
        await delivery.wait(_SILENCE_S)
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
            await creation.delivery.wait(_SILENCE_S)
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

    async def offline_replicas(
        self, broker: int, broker_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None:
        """A broker's disk failed under these replicas."""
        await self._request(
            lambda office: office.active.offline_replicas(broker, broker_epoch, partitions)
        )

    async def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """A broker is about to stop: others lead. Returns what it still leads."""
        return await self._request(
            lambda office: office.active.controlled_shutdown(broker, broker_epoch)
        )

    async def next_producer_id_block(self, broker: int) -> ProducerIdBlock:
        """Returns a block of producer ids for a broker."""
        return await self._request(lambda office: office.active.next_producer_id_block(broker))
