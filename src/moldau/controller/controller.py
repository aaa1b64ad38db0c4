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
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import TypeVar
from uuid import UUID

from moldau.controller import candidacy
from moldau.controller.active import ActiveController, ControllerMovedError
from moldau.controller.client_quotas import ClientQuotaAdmin
from moldau.controller.config_admin import ConfigAdmin
from moldau.controller.context import ControllerContext
from moldau.controller.courier import Answer, SenderPorts
from moldau.controller.leader_elections import LeaderElections
from moldau.controller.link import BrokerLink
from moldau.controller.office import Office
from moldau.controller.reassignments import Reassignments
from moldau.controller.serving import SILENCE_S, ServingController
from moldau.controller.settings import ControllerSettings
from moldau.controller.topic_admin import TopicAdmin
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

logger = logging.getLogger(__name__)

T = TypeVar("T")

_OVER = (ControllerMovedError, ConnectionLostError, SessionExpiredError)
"""What ends an office: somebody else has it, or nobody knows what became of a write."""


class Controller(ServingController):
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
        self._office: Office | None = None
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
            await self._office.active.sender.flush([self._id]).wait(SILENCE_S)

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
        office = self._office = Office(
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
        async def react(office: Office) -> None:
            await office.active.brokers_changed(self._brokers_changed)
            await office.deletion.resume()

        self._post_duty(react)

    def _deletions_changed(self, _event: WatchEvent) -> None:
        self._post_duty(lambda office: office.deletion.markers_changed(self._deletions_changed))

    def _post_duty(self, duty: Callable[[Office], Awaitable[object]]) -> None:
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

        async def react(office: Office) -> None:
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

        async def present(office: Office) -> None:
            if office.active is active:
                await duty()

        self._clock.call_later(delay_s, lambda: self._post_duty(present))

    def _balance_later(self, office: Office) -> None:
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

    async def _in_office(self, duty: Callable[[Office], Awaitable[T]]) -> T:
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

    async def _request(self, duty: Callable[[Office], Awaitable[T]]) -> T:
        try:
            return await self._queue.submit(lambda: self._in_office(duty))
        except KafkaError:
            raise
        except (ControllerMovedError, SessionExpiredError, QueueClosedError) as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
        except ConnectionLostError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except StoreUnavailableError as error:
            self._complete_creations()
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except Exception as error:
            logger.exception("Controller %d failed at a request", self._id)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def _complete_creations(self) -> None:
        """Half of a topic may be written: the rest will be, as soon as the store takes it."""
        office = self._office
        if office is not None and not office.active.is_completing:
            office.active.is_completing = True
            self._post_duty(lambda present: present.active.complete_creations())
