"""The controller, wherever it is: here if this broker is in charge, else over the network.

Nothing is asked twice that may have been carried out. A broker that is not in charge, or that was
not reached at all, has done nothing: whoever is in charge by then is asked, until the time is up.
If the connection is lost in the middle nobody knows, and that is what REQUEST_TIMED_OUT says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from moldau.broker.controller_port import ControllerClient
from moldau.broker.controller_requests import CALLS, Call, put_to
from moldau.broker.peers import Peers, UnreachableError
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.machine.backoff import Backoff
from moldau.request_errors import ClientError, ConnectionLostError
from moldau.wire.private import PrivateApi

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


Locate = Callable[[int, bool], Awaitable[BrokerRegistration | None]]
"""Finds the registration of a broker; True: as the store has it now, not as it was last heard."""


class ForwardingController:
    """A ``ControllerClient`` for a broker that may or may not be in charge: it has all its methods,
    which are alike.
    """

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

    def __getattr__(self, method: str) -> Any:
        if method not in CALLS:
            raise AttributeError(method)
        return partial(self._ask, CALLS[method])

    async def _ask(self, call: Call, *args: object, **named: object) -> object:
        message = call.ask(*args, **named)
        clock = self._machine.clock
        deadline = clock.monotonic() + self._within
        backoff = Backoff(clock, self._machine.random, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        has_failed = False
        while True:
            try:
                return await self._ask_once(message, call.answer, deadline, fresh=has_failed)
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
        self, message: msgspec.Struct, answer: Any, deadline: float, *, fresh: bool
    ) -> object:
        local = self._local
        if local.is_active:
            return await put_to(message, local)
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
        self, controller: int, call: Coroutine[Any, Any, object], was_asked: asyncio.Event
    ) -> object:
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
