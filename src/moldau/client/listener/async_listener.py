"""The listener on an event loop: polls, hands records to handlers, commits what is done.

One task polls without pause, also while all handlers are busy: a slow handler costs its partition a
pause, and never the member its place in the group. All decisions are the dispatcher's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import fields
from difflib import get_close_matches
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.consumer.async_consumer import AsyncConsumer
from moldau.client.consumer.rebalance_listener import RebalanceListener
from moldau.client.errors import CommitFailedError, ConfigError, WakeupError
from moldau.client.listener.decoder import Decoder
from moldau.client.listener.forwarding import Forwarding
from moldau.client.listener.handlers import caller
from moldau.client.listener.handling import Handling
from moldau.client.listener.modes import AckMode
from moldau.client.listener.recovery import Recovery, create_topics
from moldau.client.listener.retries import OnError, Retries
from moldau.client.listener.settings import ListenerSettings, Topics, member, read_topics
from moldau.client.listener.work import Ordering, PartitionWork
from moldau.client.settings import CommonSettings, ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.machine.real import this_machine
from moldau.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from moldau.client.large import LargeMessageCodec

logger: Final = logging.getLogger(__name__)

_LONGEST_POLL: Final = 1.0
_OWN_ARGUMENTS: Final = (
    *(field.name for field in fields(ListenerSettings)),
    "ack_time_ms",
    "large_messages",
    "machine",
)


class AsyncListener:
    """``await AsyncListener("orders", handle, bootstrap_servers=…, group_id=…).run()``.

    The handler is a coroutine function (runs on the event loop) or a function (runs in threads, or
    in processes with ``workers="processes"``). It is called with a record, and with an
    acknowledgment if ``ack_mode`` is MANUAL. Other keyword arguments are settings of the consumer.
    """

    def __init__(
        self,
        topics: Topics,
        handler: Callable[..., object],
        *,
        concurrency: int = 1,
        ack_mode: AckMode | str = AckMode.BATCH,
        ack_count: int = 100,
        ack_time_ms: int = 5_000,
        ordering: Ordering | str = Ordering.PARTITION,
        queue_size: int = 500,
        retries: Retries | None = None,
        on_error: OnError | str = OnError.DEAD_LETTER,
        dead_letter_topic: str | None = None,
        workers: Literal["threads", "processes"] = "threads",
        drain_timeout: float = 30.0,
        config: Mapping[str, object] | None = None,
        large_messages: LargeMessageCodec | None = None,
        machine: Machine | None = None,
        **settings: object,
    ) -> None:
        """Arguments:

        - ``concurrency``: how many records are handled at the same time, of all partitions together
        - ``ack_mode``: when finished records are committed; ``ack_count`` and ``ack_time_ms`` are
          for COUNT and TIME
        - ``ordering``: which records wait for each other
        - ``queue_size``: how many records of a partition may be read and not yet committable
        - ``retries``, ``on_error``, ``dead_letter_topic``: what becomes of failed records
        - ``drain_timeout``: how many seconds running handlers have when the listener stops or a
          partition goes to another member
        """
        names, pattern = read_topics(topics, dead_letter_topic)
        self.settings = ListenerSettings(
            names,
            pattern,
            concurrency,
            member(AckMode, ack_mode, "ack_mode"),
            ack_count,
            ack_time_ms / 1000,
            member(Ordering, ordering, "ordering"),
            queue_size,
            retries or Retries(),
            member(OnError, on_error, "on_error"),
            dead_letter_topic,
            workers,
            drain_timeout,
        )
        if not callable(handler):
            raise ConfigError(f"the handler is a function that takes a record, not {handler!r}")
        for name in settings:
            if close := get_close_matches(name, _OWN_ARGUMENTS, n=1, cutoff=0.8):
                raise ConfigError(
                    f"There is no setting {name!r} of a listener: did you mean {close[0]!r}?"
                )
        consumer = ConsumerSettings(config, **settings)
        if "enable.auto.commit" in consumer.explicit and consumer.enable_auto_commit:
            raise ConfigError("a listener commits by itself: leave enable.auto.commit out")
        if consumer.group_id is None:
            raise ConfigError("a listener needs a group.id")
        self._group = consumer.group_id
        self._consumer_settings = consumer
        self._large_messages = large_messages
        self._machine = machine or this_machine()
        self._call = caller(
            handler,
            Decoder(consumer),
            self._machine.threads,
            workers=workers,
            concurrency=concurrency,
        )
        self._stopping = asyncio.Event()
        self._progress = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handling: Handling | None = None
        self._consumer: AsyncConsumer | None = None
        self._error: BaseException | None = None
        self._woken = False
        self._polling = False
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Listen until :meth:`stop`; raises what made the listener give up."""
        if self._loop is not None:
            raise RuntimeError("a listener runs once")
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            stack.callback(self._call.close)
            forwarding = await stack.enter_async_context(
                Forwarding(self._consumer_settings, self._large_messages, self._machine)
            )
            recovery = Recovery(self.settings, self._group, forwarding.send, self._machine.clock)
            handling = Handling(
                self.settings, self._group, self._call, recovery, self, self._machine
            )
            self._handling = handling
            await self._create_topics()
            consumer = self._make_consumer()
            self._consumer = consumer
            stack.push_async_callback(consumer.close)
            self._subscribe(consumer, handling)
            try:
                while not self._stopping.is_set():
                    await self._turn(consumer, handling)
            finally:
                await self._end(handling)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Begin nothing more, let running handlers finish, commit, leave. From any thread."""
        if self._loop is None:
            self._stopping.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)

    def metrics(self) -> dict[str, float]:
        """Records by what became of them, and how many handlers run now."""
        if self._handling is None:
            return {}
        counts = self._handling.counts.items()
        return {
            "handlers-running": self._handling.dispatcher.running,
            **{f"records-{name.replace('_', '-')}-total": count for name, count in counts},
        }

    def __repr__(self) -> str:
        pattern = self.settings.pattern
        topics = list(self.settings.topics) if pattern is None else pattern.pattern
        return f"<{type(self).__name__} of {topics} in group {self._group!r}>"

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name="moldau listener")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        assert self._task is not None
        await self._task

    # -- one turn of the loop

    async def _turn(self, consumer: AsyncConsumer, handling: Handling) -> None:
        self._woken = False
        handling.begin()
        pause, resume = handling.dispatcher.pauses()
        consumer.pause(*pause)
        consumer.resume(*resume)
        if handling.policy.is_due(self._now()):
            handling.policy.committed(self._now())
            await self._commit(handling.dispatcher.offsets())
        self._polling = True
        try:
            polled = await consumer.poll(
                self._poll_timeout(handling), handling.dispatcher.poll_size
            )
        except WakeupError:
            return
        finally:
            self._polling = False
        for partition, records in polled.items():
            handling.dispatcher.add(partition, records, self._now())

    def _poll_timeout(self, handling: Handling) -> float:
        """Until something is to be done that no handler announces."""
        if self._woken:
            return 0.0
        moments = [handling.dispatcher.next_due(), handling.policy.next_due()]
        soonest = min([moment for moment in moments if moment is not None], default=float("inf"))
        return max(0.0, min(soonest - self._now(), _LONGEST_POLL))

    async def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if not offsets or self._consumer is None or self._handling is None:
            return
        try:
            await self._consumer.commit(offsets)
        except KafkaError as error:
            if error.code == ErrorCode.OFFSET_METADATA_TOO_LARGE:
                await self._commit({p: at._replace(metadata="") for p, at in offsets.items()})
            elif isinstance(error, CommitFailedError) or error.retriable:
                logger.warning("Offsets were not committed; records may be seen again: %s", error)
            else:
                raise
        else:
            self._handling.dispatcher.committed(offsets)

    # -- what handlers bring about

    def progressed(self) -> None:
        self._progress.set()
        assert self._handling is not None
        due = self._handling.policy.is_due(self._now())
        if due or self._handling.dispatcher.has_room_again or self._stopping.is_set():
            self.delayed()

    def delayed(self) -> None:
        """The poll under way was to last until another moment."""
        self._progress.set()
        self._woken = True
        if self._polling and self._consumer is not None:
            self._consumer.wakeup()

    def give_up(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stop()

    # -- topics and partitions

    def _make_consumer(self) -> AsyncConsumer:
        # Handlers deserialize: what they cannot read is a failed record, and not a failed poll.
        settings = {
            **self._consumer_settings.given(ConsumerSettings),
            "enable.auto.commit": False,
            "key.deserializer": "bytes",
            "value.deserializer": "bytes",
        }
        return AsyncConsumer(settings, large_messages=self._large_messages, machine=self._machine)

    async def _create_topics(self) -> None:
        wanted = {**self.settings.retry_topics, **self.settings.dead_letter_topics}
        if wanted:
            settings = self._consumer_settings.given(CommonSettings)
            async with AsyncAdmin(settings, machine=self._machine) as admin:
                await create_topics(admin, wanted)

    def _subscribe(self, consumer: AsyncConsumer, handling: Handling) -> None:
        listener = _Partitions(self, handling)
        if self.settings.pattern is not None:
            consumer.subscribe(pattern=self.settings.pattern, listener=listener)
        else:
            names = [*self.settings.topics, *self.settings.retry_topics]
            consumer.subscribe(names, listener=listener)

    async def assigned(self, handling: Handling, partitions: Collection[TopicPartition]) -> None:
        assert self._consumer is not None
        retry_topics = self.settings.retry_topics
        known_needed = [
            partition
            for partition in partitions
            if partition.topic in retry_topics or self.settings.ordering is not Ordering.PARTITION
        ]
        committed = await self._consumer.committed(known_needed) if known_needed else {}
        handling.dispatcher.assign(partitions, committed)
        # Whatever auto.offset.reset says: what was put there is this group's and not handled yet.
        fresh = [p for p in partitions if p.topic in retry_topics and committed[p] is None]
        if fresh:
            self._consumer.seek_to_beginning(*fresh)

    async def revoked(self, handling: Handling, partitions: Collection[TopicPartition]) -> None:
        gone = handling.dispatcher.revoke(partitions)
        if self._stopping.is_set():
            return  # all was drained and committed before
        # The others of the group wait for us: half of what they would wait at most.
        longest = self._consumer_settings.max_poll_interval_ms / 2000
        polling, self._polling = self._polling, False
        try:
            await self._drain(gone, min(self.settings.drain_timeout, longest))
            await self._commit(handling.dispatcher.offsets(gone))
        finally:
            self._polling = polling

    async def _drain(self, partitions: Iterable[PartitionWork], seconds: float) -> None:
        """Wait until the handlers of these partitions are through, but not forever."""
        waiting = list(partitions)
        try:
            async with asyncio.timeout(seconds):
                while any(work.in_flight for work in waiting):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            logger.warning(
                "%d records were not finished after %g s; they will be seen again",
                sum(work.in_flight for work in waiting),
                seconds,
            )

    # -- the end

    def _stop(self) -> None:
        self._stopping.set()
        if self._handling is not None:
            self._handling.dispatcher.close()
        self.delayed()

    async def _end(self, handling: Handling) -> None:
        self._stopping.set()
        partitions = handling.dispatcher.close()
        await self._drain(partitions, self.settings.drain_timeout)
        await handling.abandon()
        await self._commit(handling.dispatcher.offsets(partitions))

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()


class _Partitions(RebalanceListener):
    """Rebalances, passed on."""

    def __init__(self, owner: AsyncListener, handling: Handling) -> None:
        self._owner = owner
        self._handling = handling

    def on_assigned(self, partitions: Collection[TopicPartition]) -> Any:
        return self._owner.assigned(self._handling, partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> Any:
        return self._owner.revoked(self._handling, partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._handling.dispatcher.revoke(partitions)
