"""Carries out what a rebalance does to partitions, together with the user's listener."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection

from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.membership.actions import CallBack, CallbackKind
from moldau.client.consumer.rebalance_listener import RebalanceListener
from moldau.model import TopicPartition

CallUser = Callable[[Callable[[], object]], Awaitable[object]]
"""Calls a function of the user's where the user wants it called."""


async def call_here(function: Callable[[], object]) -> object:
    """In the task that polls."""
    result = function()
    return await result if inspect.isawaitable(result) else result


class Rebalances:
    def __init__(self, core: ConsumerCore, call_user: CallUser) -> None:
        self.listener: RebalanceListener | None = None
        self.count = 0
        self._core = core
        self._call_user = call_user

    async def carry_out(self, commit_within: float) -> None:
        """Whatever waits, in order. What the listener raises is raised when that is done."""
        driver = self._core.driver
        while driver is not None and driver.callbacks:
            callback = driver.callbacks.popleft()
            if not driver.member.is_wanted(callback):
                continue
            driver.member.callback_begins()
            try:
                await self._carry_out(callback, commit_within)
            finally:
                driver.member.callback_done(callback)
                self._core.kick()

    async def give_up_all(self, commit_within: float) -> None:
        """Before leaving the group by our own will."""
        driver = self._core.driver
        if driver is None:
            return
        driver.callbacks.clear()
        member = driver.member
        kind = CallbackKind.REVOKED if member.joined else CallbackKind.LOST
        if self._core.subscription.partitions:
            mine = frozenset(self._core.subscription.partitions)
            await self._carry_out(CallBack(kind, mine), commit_within)

    async def _carry_out(self, callback: CallBack, commit_within: float) -> None:
        core = self._core
        partitions = sorted(callback.partitions)  # the order in which they will be fetched
        if callback.kind is CallbackKind.ASSIGNED:
            self.count += 1
            core.subscription.add(partitions)
            await self._tell(lambda listener: listener.on_assigned, partitions)
            return
        mine = [partition for partition in partitions if partition in core.subscription.partitions]
        if not mine:
            return
        for partition in mine:
            core.subscription.partitions[partition].pending_revocation = True
        try:
            if callback.kind is CallbackKind.REVOKED:
                if core.committer is not None:
                    await core.committer.commit_before_leaving(commit_within)
                await self._tell(lambda listener: listener.on_revoked, mine)
            else:
                await self._tell(lambda listener: listener.on_lost, mine)
        finally:
            core.subscription.remove(mine)

    async def _tell(
        self,
        method: Callable[[RebalanceListener], Callable[[Collection[TopicPartition]], object]],
        partitions: list[TopicPartition],
    ) -> None:
        listener = self.listener
        if listener is not None:
            await self._call_user(lambda: method(listener)(list(partitions)))
