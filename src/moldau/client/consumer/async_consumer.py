"""``AsyncConsumer``: reads topics alone or as a member of a group.

Methods that may need the network are coroutines; the others only change what is read next. All of
them belong to one event loop; one task at a time may poll.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.client.arguments import names
from moldau.client.arguments import partitions as partitions_given
from moldau.client.closing import AsyncClosing
from moldau.client.consumer.committer import CommitCallback, Offsets
from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.deserialize import Deserialization
from moldau.client.consumer.interceptors import ConsumerInterceptors
from moldau.client.consumer.iteration import Iteration
from moldau.client.consumer.metrics import ConsumerMetrics
from moldau.client.consumer.partition_state import PartitionState
from moldau.client.consumer.position import NO_EPOCH, Position
from moldau.client.consumer.queries import ConsumerQueries
from moldau.client.consumer.rebalance_listener import RebalanceListener
from moldau.client.consumer.rebalances import Rebalances, call_here
from moldau.client.consumer.records import EMPTY, ConsumerRecords
from moldau.client.consumer.reset import TO_EARLIEST, TO_LATEST
from moldau.client.consumer.types import Places, place, places
from moldau.client.errors import (
    ClosedError,
    ConcurrentAccessError,
    ConfigError,
    WakeupError,
)
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.client.large.codec import LargeMessageCodec
    from moldau.client.large.reading import LargeReading

T = TypeVar("T")

CLOSE_TIMEOUT = 30.0
_FIRST_JOIN_FACTOR = 5.0
"""How many times its timeout the first poll may take. Not as long as it likes: two members that one
thread polls in turn would wait for each other."""


class AsyncConsumer(ConsumerQueries, AsyncClosing):
    """``async with AsyncConsumer(bootstrap_servers=…, group_id=…) as consumer: …``."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        large_messages: LargeMessageCodec | None = None,
        machine: Machine | None = None,
        **settings: object,
    ) -> None:
        self.settings = ConsumerSettings(config, **settings)
        self._interceptors = ConsumerInterceptors(self.settings.interceptor_classes)
        self._core = ConsumerCore(self.settings, self._committed, machine)
        self._metrics = ConsumerMetrics(self._core.machine.clock.monotonic)
        self._rebalances = Rebalances(self._core, lambda function: self._call_user(function))
        self._convert = Deserialization.of(self.settings)
        self._large = None if large_messages is None else self._read_large(large_messages)
        self._call_user: Callable[[Callable[[], object]], Any] = call_here
        self._polling = False
        self._has_begun = False
        self._wakeup = False
        self._closed = False
        self.handover = self._core.handover
        self.handover.go_back = self._go_back
        self._iteration: Iteration | None = None
        """What is given one by one, until the next poll."""

    # -- what to read

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group; the last call wins.

        A pattern as text is evaluated by the coordinator under ``group.protocol=consumer``
        (RE2 syntax), and here otherwise; a compiled one always here.
        """
        self._check_open()
        self._group("subscribe()")
        if (topics is None) == (pattern is None):
            raise ValueError("subscribe() takes topics or a pattern")
        subscription = self._core.subscription
        if topics is not None:
            wanted = names(topics, "subscribe()")
            if not wanted or not all(wanted):
                raise ValueError("subscribe() needs topics with names; unsubscribe() ends reading")
            subscription.subscribe(wanted)
        elif isinstance(pattern, str) and self.settings.group_protocol == "consumer":
            subscription.subscribe_broker_pattern(pattern)
        elif pattern is not None:
            subscription.subscribe_pattern(re.compile(pattern))
        self._rebalances.listener = listener
        self._core.subscription_changed()

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the partitions that were assigned by hand."""
        self._check_open()
        if self._core.subscription.uses_group and self._core.driver is not None:
            timeout = self._api_timeout
            await self._rebalances.give_up_all(timeout)
            await self._core.driver.leave(timeout)
        self._core.subscription.unsubscribe()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have the group divide its partitions anew; the next polls do it.

        The coordinator is told the reason. It may see no need, with a member that is not the
        leader of its group and wants the same as before; under ``group.protocol=consumer`` it
        decides by itself, and this only logs a warning.
        """
        self._check_open()
        self._group("enforce_rebalance()")
        self._core.enforce_rebalance(reason or "rebalance enforced by user")

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's help; replaces the last call's."""
        self._check_open()
        wanted = partitions_given(partitions, "assign()")
        self._core.subscription.assign(wanted)
        self._core.subscription_changed()

    # -- reading

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> ConsumerRecords:
        """Records that were fetched, or that come within ``timeout`` seconds.

        Rebalances are carried out, and automatic commits made, in here. The first poll of a member
        may take five times as long, until its group has formed and offsets are known: by default
        a coordinator gives the first member its partitions only after three seconds, in which
        others may come.
        """
        limit = self.settings.max_poll_records if max_records is None else max_records
        core = self._core

        def take() -> dict[TopicPartition, list[ConsumerRecord]]:
            convert = self._convert if self._large is None else None
            return core.buffer.take(limit, convert)

        with self.handover.handing_out():
            if self._large is None:
                polled = await self._poll(timeout, take)
            else:
                polled = await self._poll_large(self._large, timeout, take)
            if not polled:
                return EMPTY
            self._metrics.consumed(polled.values())
            records = ConsumerRecords(polled)
            if self._interceptors:
                seen: ConsumerRecords = await self._call_user(
                    lambda: self._interceptors.on_consume(records)
                )
                return seen
            return records

    def poll_buffered(self, max_records: int | None = None) -> ConsumerRecords | None:
        """What is here already, if there is nothing else to do first; None means: ``poll()``.

        For the thread of a blocking consumer: a poll that needs no other thread costs a fraction.
        """
        core, now = self._core, self._core.machine.clock.monotonic()
        if self._closed or self._polling or self._wakeup or self.handover.lost:
            return None
        if self._interceptors or self._large is not None or not core.is_quiet(now):
            return None
        if self._iteration is not None and self._iteration.unread(core.subscription.partitions):
            return None
        limit = self.settings.max_poll_records if max_records is None else max_records
        self.handover.arrived()
        polled = core.buffer.take(limit, self._convert)
        if not polled:
            return None
        core.taken_aside(now)
        self._metrics.consumed(polled.values())
        return ConsumerRecords(polled)

    async def poll_arrow(self, timeout: float = 1.0, max_records: int | None = None) -> pa.Table:
        """The same as a table, built without an object per record; needs the extra ``arrow``.

        Whole batches: there may be more rows than ``max_records`` (all that is fetched by default).
        Keys and values are bytes; deserializers and interceptors have no part in it.
        """
        from moldau.client.consumer.arrow import to_table

        limit = 2**63 if max_records is None else max_records
        core = self._core
        with self.handover.handing_out():
            columns = await self._poll(timeout, lambda: core.buffer.take_columns(limit))
            return to_table(columns or {})

    async def consume_batch(self, count: int, timeout: float = 1.0) -> list[ConsumerRecord]:
        """Up to ``count`` records; fewer when no more come within ``timeout`` seconds.

        Also when there is a rebalance to carry out: that is left to the next call, when these
        records are done with. An error that comes after some records is raised by the next call.
        """
        deadline = self._now() + timeout
        batch: list[ConsumerRecord] = []
        with self.handover.handing_out():
            try:
                while len(batch) < count:
                    left = max(0.0, deadline - self._now())
                    polled = await self.poll(left, count - len(batch))
                    batch += polled.records()
                    self.handover.gathering = bool(batch)
                    if not polled and (self._now() >= deadline or self._must_hand_out()):
                        break
            except KafkaError as error:
                if not batch:
                    raise
                if isinstance(error, WakeupError):
                    self.wakeup()
                else:
                    self._core.note_failure(error)
            finally:
                self.handover.gathering = False
        return batch

    async def consume_callback(
        self, callback: Callable[[ConsumerRecord], object], *, poll_timeout: float = 1.0
    ) -> int:
        """Call a function (or coroutine) with each record until ``wakeup()``; how many it got.

        A record counts as consumed when the callback returns; what it raises ends the call.
        """
        if not callable(callback):
            raise TypeError(f"consume_callback() takes a function, not {callback!r}")
        count = 0
        while True:
            try:
                records = await self.poll(poll_timeout)
            except WakeupError:
                return count
            self._iteration = iteration = Iteration(records, self._core.subscription.partitions)
            for record in iteration:
                try:
                    await self._call_user(lambda record=record: callback(record))  # type: ignore[misc]
                except BaseException:
                    iteration.take_back(record)
                    raise
                count += 1

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[ConsumerRecord]:
        while not self._closed:
            try:
                records = await self.poll()
            except ClosedError:
                return
            for record in self.one_by_one(records):
                yield record

    def one_by_one(self, records: ConsumerRecords) -> Iterator[ConsumerRecord]:
        """What a poll gave; a record counts as consumed when it is given, and not before."""
        self._iteration = Iteration(records, self._core.subscription.partitions)
        return iter(self._iteration)

    def wakeup(self) -> None:
        """Make the poll under way, or the next one, raise ``WakeupError``."""
        self._wakeup = True
        self._core.news.set()

    # -- where to go on

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read this offset next."""
        to = place(offset)
        if to.offset < 0:
            raise ValueError(f"an offset is not negative: {to.offset}")
        epoch = NO_EPOCH if to.leader_epoch is None else to.leader_epoch
        self._core.subscription.state(partition).seek(Position(to.offset, epoch))
        self._core.kick()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """All assigned partitions, or these; looked up by the next poll or ``position``."""
        for partition in partitions or self._core.subscription.partitions:
            self._core.subscription.state(partition).request_reset(TO_EARLIEST)
        self._core.kick()

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        for partition in partitions or self._core.subscription.partitions:
            self._core.subscription.state(partition).request_reset(TO_LATEST)
        self._core.kick()

    def pause(self, *partitions: TopicPartition) -> None:
        """Poll gives nothing of these until ``resume``; what was fetched of them is kept."""
        for partition in partitions:
            self._core.subscription.state(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._core.subscription.state(partition).paused = False
        self._core.kick()

    # -- committing

    async def commit(self, offsets: Places | None = None, *, timeout: float | None = None) -> None:
        """Commit positions, or these offsets; tries again until it is done or cannot be done."""
        committer = self._group("commit()")
        self._core.start()
        within = self._api_timeout if timeout is None else timeout
        await committer.commit(
            committer.to_commit() if offsets is None else places(offsets, "commit()"), within
        )

    commit_sync = commit  # its name in Kafka's own client

    def commit_async(
        self,
        offsets: Places | CommitCallback | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """The same in the background and without a second attempt.

        A later poll, or ``close``, calls the callback with the offsets and the error or None.
        ``commit_async(callback)`` is for positions, as in Kafka's own client.
        """
        if callable(offsets):
            if callback is not None:
                raise TypeError("commit_async() takes offsets and a callback, not two callbacks")
            offsets, callback = None, offsets
        committer = self._group("commit_async()")
        self._core.start()
        wanted = committer.to_commit() if offsets is None else places(offsets, "commit_async()")
        committer.commit_async(wanted, callback)

    def store_offset(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Say that everything before this offset is done: the next automatic commit takes it.

        With ``enable.auto.offset.store=false``; otherwise poll does it.
        """
        self.store_offsets({partition: offset})

    def store_offsets(self, offsets: Places) -> None:
        if self.settings.enable_auto_offset_store:
            raise ValueError("store_offset() needs enable.auto.offset.store=false")
        self._group("store_offset()").store(places(offsets, "store_offsets()"))

    def metrics(self) -> dict[str, float]:
        """A few figures by Kafka's names."""
        lags = [lag for key in self.assignment() if (lag := self.lag(key)) is not None]
        return self._metrics.snapshot(
            fetches=self._core.fetcher.fetches,
            bytes_fetched=self._core.fetcher.bytes_fetched,
            assigned=len(self._core.subscription.partitions),
            rebalances=self._rebalances.count,
            lags=lags,
        )

    # -- the end

    async def close(self, timeout: float | None = None) -> None:
        """Commit (with automatic commits), give up the partitions, leave the group."""
        if self._closed:
            return
        within = CLOSE_TIMEOUT if timeout is None else timeout
        self._closed = True
        self._core.news.set()
        core = self._core
        try:
            if core.committer is not None and core.driver is not None:
                if core.subscription.uses_group:
                    await self._rebalances.give_up_all(within)
                    await core.driver.leave(within)
                else:
                    await core.committer.commit_before_leaving(within)
                await core.committer.close(within)
                await self._report_commits()
        finally:
            await core.close()
            self._interceptors.close()

    def __repr__(self) -> str:
        group = self.settings.group_id
        member = f"of group {group!r}" if group else "without a group"
        return f"<{type(self).__name__} {member} at {self.settings.servers}>"

    # -- parts

    @property
    def closed(self) -> bool:
        return self._closed

    async def _poll(self, timeout: float, take: Callable[[], T]) -> T | None:
        """What ``take`` finds now, or when something has come; None after the timeout."""
        self._check_open()
        if self._polling:
            raise ConcurrentAccessError("another task is polling this consumer")
        self._polling = True
        core = self._core
        try:
            self._begin_poll()
            began = self._now()
            deadline = began + timeout
            patience = min(_FIRST_JOIN_FACTOR * timeout, self._api_timeout)
            first_join = self._joins_for_the_first_time()
            # Gives the work in the background a turn even if everything is here already.
            await asyncio.sleep(0)
            while True:
                core.news.clear()
                self._check_open()
                if self._wakeup:
                    self._wakeup = False
                    raise WakeupError
                if self._must_hand_out():
                    return None
                if not self.handover.gathering:
                    await self._rebalances.carry_out(self._api_timeout)
                    await self._report_commits()
                    self.handover.arrived()
                core.raise_failure()
                polled = take()
                # An earlier poll in the user's thread may have made room and found nothing else.
                emptied = self.handover.partitions if polled else core.subscription.states
                if core.fetcher.has_room_again(emptied):
                    core.fetcher.step(self._now())
                if polled:
                    return polled
                now = self._now()
                if first_join and now - began < patience and core.cluster.is_connected:
                    deadline = now + timeout
                    first_join = self._joins_for_the_first_time()
                left = deadline - now
                if left <= 0:
                    return None
                try:
                    async with asyncio.timeout(left):
                        await core.news.wait()
                except TimeoutError:
                    continue
        finally:
            self._polling = False
            core.poll_ended()

    async def _poll_large(
        self,
        large: LargeReading,
        timeout: float,
        take: Callable[[], dict[TopicPartition, list[ConsumerRecord]]],
    ) -> dict[TopicPartition, list[ConsumerRecord]] | None:
        """Until a message is whole, or the time is over."""
        deadline = self._now() + timeout
        self._core.raise_failure()  # first: the next check takes damage as known to the user
        large.check()
        while True:
            fetched = await self._poll(max(0.0, deadline - self._now()), take)
            whole = await large.read(fetched or {})
            if whole:
                return whole
            large.check()
            if not fetched:
                return None

    def _read_large(self, codec: LargeMessageCodec) -> LargeReading:
        from moldau.client.large.reading import LargeReading

        if not hasattr(codec, "reader"):
            raise ConfigError(f"large_messages is Chunking() or ClaimCheck(...), not {codec!r}")
        convert = self._convert
        large = LargeReading(
            codec,
            None if convert is None else lambda record: convert([record]),
            self._core.machine,
        )
        self._core.space.dropped = large.forget
        if self._core.committer is not None:
            self._core.committer.committable = large.committable
        return large

    def _joins_for_the_first_time(self) -> bool:
        """Returns whether we do not know yet what the group gives us, and where to begin with
        that.
        """
        if self._has_begun or not self._core.subscription.uses_group:
            return False
        states = self._core.subscription.partitions.values()
        self._has_begun = self._rebalances.count > 0 and not any(
            state.needs_work for state in states
        )
        return not self._has_begun

    def _begin_poll(self) -> None:
        core = self._core
        if not core.subscription.uses_group and not core.subscription.partitions:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "there is nothing to poll: subscribe() or assign() first"
            )
        self.handover.arrived()
        if self._iteration is not None:
            for state in self._iteration.unread(core.subscription.partitions):
                if state.position is not None:
                    self._go_back(state, state.position)
            self._iteration = None
        core.poll_started()
        if core.committer is not None:
            core.committer.auto_commit(self._now())

    def _must_hand_out(self) -> bool:
        """Returns whether a rebalance is to be carried out that gathered records must not
        outlast.
        """
        driver = self._core.driver
        return self.handover.gathering and driver is not None and bool(driver.callbacks)

    async def _report_commits(self) -> None:
        committer = self._core.committer
        while committer is not None and committer.outcomes:
            await self._call_user(committer.outcomes.popleft())

    def _go_back(self, state: PartitionState, position: Position) -> None:
        if self._core.subscription.partitions.get(state.partition) is state:
            if self._large is not None:
                position = self._large.start(state.partition, position)
            state.seek(position)
            self._core.kick()

    def _committed(self, offsets: Offsets) -> None:
        self._metrics.commits += 1
        self._interceptors.on_commit(offsets)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("The consumer is closed")
