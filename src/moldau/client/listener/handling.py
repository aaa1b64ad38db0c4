"""The records at work: starts handlers, and takes care of what they leave behind."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from moldau.client.listener.dispatcher import Dispatcher
from moldau.client.listener.handlers import Caller
from moldau.client.listener.headers import read_retry
from moldau.client.listener.modes import AckMode, CommitPolicy
from moldau.client.listener.recovery import Recovery
from moldau.client.listener.settings import ListenerSettings
from moldau.client.listener.work import Work
from moldau.machine import Machine
from moldau.records.consumer_record import ConsumerRecord

logger: Final = logging.getLogger(__name__)

_TIME_SLICE: Final = 0.005


class Owner(Protocol):
    """Who is told what the handlers bring about."""

    def progressed(self) -> None:
        """A record is handled or finished: room in the queue, something to commit."""

    def delayed(self) -> None:
        """A record is to be handled again at a later moment."""

    def give_up(self, error: BaseException) -> None:
        """The listener cannot go on."""


class Handling:
    def __init__(
        self,
        settings: ListenerSettings,
        group: str,
        call: Caller,
        recovery: Recovery,
        owner: Owner,
        machine: Machine,
    ) -> None:
        self._machine = machine
        self._settings = settings
        self._group = group
        self._call = call
        self._recovery = recovery
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._retry_topics = frozenset(settings.retry_topics)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._abandoned = False
        self.counts = dict.fromkeys(("handled", "failed", "retry", "dead_letter", "skip"), 0)
        self.policy = CommitPolicy(
            settings.ack_mode, count=settings.ack_count, interval=settings.ack_time
        )
        self.policy.started(self._loop.time())
        self.dispatcher = Dispatcher(
            settings.ordering,
            settings.concurrency,
            settings.queue_size,
            whole_batches=settings.ack_mode is AckMode.BATCH,
            due_of=self._due_of,
        )

    def begin(self) -> None:
        """Start all handlers that may start."""
        while (work := self.dispatcher.next(self._loop.time())) is not None:
            task = asyncio.create_task(self._handle_on(work), name=f"handler of {work!r}")
            self._tasks[task] = None
            task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._owner.give_up(error)

    async def abandon(self) -> None:
        """Wait no longer for handlers."""
        self._abandoned = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _handle_on(self, work: Work | None) -> None:
        """One record after the other: a task for each would cost as much as handling it."""
        yielded = self._loop.time()
        while work is not None:
            await self._handle(work)
            now = self._loop.time()
            if now - yielded > _TIME_SLICE:
                # Coroutines that never wait leave heartbeats and polls no other moment.
                await asyncio.sleep(0)
                yielded = self._loop.time()
            work = self.dispatcher.next(now)

    async def _handle(self, work: Work) -> None:
        try:
            if self._is_of_another_group(work.record):
                self._finish(work)
            else:
                await self._call_handler(work)
        except (Exception, asyncio.CancelledError) as error:
            if self._abandoned:
                raise
            self.counts["failed"] += 1
            if await self._will_be_retried(work, error):
                return
        self.dispatcher.handled(work, self._loop.time())
        self._owner.progressed()

    async def _call_handler(self, work: Work) -> None:
        if self._settings.ack_mode is AckMode.MANUAL:
            await self._call(work.record, _Ack(self, work))
        else:
            await self._call(work.record, None)
            self._finish(work)
        self.counts["handled"] += 1

    async def _will_be_retried(self, work: Work, error: BaseException) -> bool:
        """Returns whether the record is to be handled again, now or after a restart; if not, it is
        over.
        """
        if work.finished:
            logger.warning("The handler of %r failed after acknowledging it", work, exc_info=error)
            return False
        retries = self._settings.retries
        if retries.is_worth_a_retry(error, work.attempts):
            pause = retries.pause(work.attempts, self._machine.random)
            logger.warning("%r failed, again in %.1f s: %r", work, pause, error)
            now = self._loop.time()
            self.dispatcher.retry(work, now + pause, now)
            self._owner.delayed()
            return True
        try:
            self.counts[await self._recovery.recover(work, error)] += 1
        except Exception as reason:
            if reason is not error:
                logger.error("%r failed, and could not be forwarded: %s", work, reason)
            self._owner.give_up(reason)
            self.dispatcher.drop(work)
            self._owner.progressed()
            return True
        self._finish(work)
        return False

    def _finish(self, work: Work) -> None:
        self.policy.finished(self.dispatcher.finished(work))

    def acknowledge_soon(self, work: Work) -> None:
        """From any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._acknowledge, work)

    def _acknowledge(self, work: Work) -> None:
        self._finish(work)
        self._owner.progressed()

    def _is_of_another_group(self, record: ConsumerRecord) -> bool:
        """Retry topics are shared by all groups that listen to a topic."""
        if record.topic not in self._retry_topics:
            return False
        retry = read_retry(record.headers)
        return retry is not None and retry.failure.group != self._group

    def _due_of(self, record: ConsumerRecord) -> float:
        if record.topic not in self._retry_topics:
            return 0.0
        retry = read_retry(record.headers)
        if retry is None:
            return 0.0
        return self._loop.time() + (retry.due_ms - self._machine.clock.now_ms()) / 1000


class _Ack:
    """An :class:`Acknowledgment`."""

    __slots__ = ("_handling", "_work")

    def __init__(self, handling: Handling, work: Work) -> None:
        self._handling = handling
        self._work = work

    def acknowledge(self) -> None:
        self._handling.acknowledge_soon(self._work)
