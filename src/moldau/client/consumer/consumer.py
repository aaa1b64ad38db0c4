"""``Consumer``: ``AsyncConsumer`` for programs that do not use asyncio.

The consumer's work goes on in a thread of its own between calls. What belongs to the user (the
rebalance listener, interceptors, callbacks) runs in the user's thread, inside the call that caused
it, and may use the consumer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from moldau.client.blocking import BlockingClient, begin
from moldau.client.consumer.async_consumer import AsyncConsumer
from moldau.client.consumer.records import ConsumerRecords
from moldau.client.errors import ClosedError, ConcurrentAccessError
from moldau.client.settings import ConsumerSettings
from moldau.client.user_threads import LOOK_UP
from moldau.errors import KafkaError
from moldau.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    from moldau.client.large.codec import LargeMessageCodec

T = TypeVar("T")
P = ParamSpec("P")


def _blocking(
    method: Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Consumer, P], T]:
    """The blocking form of a coroutine method, with its signature and documentation."""

    @functools.wraps(method)
    def call(self: Consumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._inner, *args, **kwargs))

    return _documented(call, method)


def _reading(
    method: Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Consumer, P], T]:
    """The same for methods that give records: they count when they have reached the user."""
    work = _blocking(method)

    @functools.wraps(method)
    def call(self: Consumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._handing_out():
            return work(self, *args, **kwargs)

    return _documented(call, method)


def _plain(
    method: Callable[Concatenate[AsyncConsumer, P], T],
) -> Callable[Concatenate[Consumer, P], T]:
    """A method that does not wait, in the thread where everything it touches lives."""

    @functools.wraps(method)
    def call(self: Consumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def work() -> T:
            return method(self._inner, *args, **kwargs)

        return self._run(work())

    return _documented(call, method)


def _documented(call: Callable[P, T], method: Callable[..., Any]) -> Callable[P, T]:
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    del call.__wrapped__  # type: ignore[attr-defined]
    return call


class Consumer(BlockingClient[AsyncConsumer]):
    """``with Consumer(bootstrap_servers=…, group_id=…) as consumer: consumer.subscribe([…])``.

    For one thread at a time: a call while another thread's is under way raises
    ``ConcurrentAccessError``. Only ``wakeup`` and ``metrics`` may be called from any thread.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        large_messages: LargeMessageCodec | None = None,
        **settings: object,
    ) -> None:
        inner = AsyncConsumer(config, large_messages=large_messages, machine=None, **settings)
        super().__init__(inner, "consumer")
        self._inner._call_user = self._call_in_users_thread
        self._lock = threading.Lock()
        self._owner = 0
        self._depth = 0
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    @property
    def settings(self) -> ConsumerSettings:
        return self._inner.settings

    subscribe = _plain(AsyncConsumer.subscribe)
    unsubscribe = _blocking(AsyncConsumer.unsubscribe)
    enforce_rebalance = _plain(AsyncConsumer.enforce_rebalance)
    assign = _plain(AsyncConsumer.assign)
    subscription = _plain(AsyncConsumer.subscription)
    assignment = _plain(AsyncConsumer.assignment)

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> ConsumerRecords:
        """Records that were fetched, or that come within ``timeout`` seconds.

        Rebalances are carried out, and automatic commits made, in here.
        """
        with self._handing_out():
            records = self._inner.poll_buffered(max_records)
            if records is not None:
                return records
            return self._run(self._inner.poll(timeout, max_records))

    poll_arrow = _reading(AsyncConsumer.poll_arrow)
    consume_batch = _reading(AsyncConsumer.consume_batch)
    consume_callback = _blocking(AsyncConsumer.consume_callback)

    seek = _plain(AsyncConsumer.seek)
    seek_to_beginning = _plain(AsyncConsumer.seek_to_beginning)
    seek_to_end = _plain(AsyncConsumer.seek_to_end)
    position = _blocking(AsyncConsumer.position)
    pause = _plain(AsyncConsumer.pause)
    resume = _plain(AsyncConsumer.resume)
    paused = _plain(AsyncConsumer.paused)

    commit = _blocking(AsyncConsumer.commit)
    commit_sync = commit
    commit_async = _plain(AsyncConsumer.commit_async)
    store_offset = _plain(AsyncConsumer.store_offset)
    store_offsets = _plain(AsyncConsumer.store_offsets)
    committed = _blocking(AsyncConsumer.committed)
    group_metadata = _plain(AsyncConsumer.group_metadata)

    beginning_offsets = _blocking(AsyncConsumer.beginning_offsets)
    end_offsets = _blocking(AsyncConsumer.end_offsets)
    offsets_for_times = _blocking(AsyncConsumer.offsets_for_times)
    lag = _plain(AsyncConsumer.lag)
    partitions_for = _blocking(AsyncConsumer.partitions_for)
    topics = _blocking(AsyncConsumer.topics)

    def metrics(self) -> dict[str, float]:
        """A few figures by Kafka's names."""
        return self._inner.metrics()

    def wakeup(self) -> None:
        """Make the poll under way, or the next one, raise ``WakeupError``; from any thread."""
        try:
            self._thread.loop.call_soon_threadsafe(self._inner.wakeup)
        except ClosedError:
            return

    def close(self, timeout: float | None = None) -> None:
        """Commit (with automatic commits), give up the partitions, leave the group."""
        if not self._inner.closed:
            self._run(self._inner.close(timeout))
        self._thread.stop()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records one by one, for ever; ends when the consumer is closed.

        A record counts as consumed when it is given. After a ``break`` the next poll, or the next
        consumer of the group, goes on behind it.
        """
        while not self._inner.closed:
            yield from self._inner.one_by_one(self.poll())

    def __repr__(self) -> str:
        return repr(self._inner).replace("AsyncConsumer", "Consumer")

    # -- one thread at a time, and the user's code in it

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._lock:
            if self._depth and self._owner != me:
                raise ConcurrentAccessError(
                    "a consumer is for one thread at a time, and another one is using it now; "
                    "only wakeup() may be called meanwhile"
                )
            self._owner = me
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1

    @contextmanager
    def _handing_out(self) -> Iterator[None]:
        """Records that get lost on their way, by Ctrl-C for instance, come again."""
        with self._one_thread():
            handover = self._inner.handover
            before = handover.takes
            try:
                yield
            except KafkaError:
                raise
            except BaseException:
                handover.lost = True  # no record may be taken past them until that is done
                self._thread.loop.call_soon_threadsafe(handover.rewind, before)
                raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; carry out here what it wants the user's code to do."""
        started = False
        try:
            with self._one_thread():
                loop = self._thread.loop
                if asyncio._get_running_loop() is loop:
                    raise RuntimeError("a blocking consumer was called from its own event loop")
                started = True
                return self._run_alone(work, loop)
        finally:
            if not started:
                work.close()

    def _run_alone(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
        before, self._calls = self._calls, SimpleQueue()
        calls = self._calls
        # Made before anything runs: wherever Ctrl-C strikes from here on, it can be called off.
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.add_done_callback(lambda _: calls.put(None))
        try:
            begin(loop, work, future, self._thread.name)
            while (call := _next(calls)) is not None:
                call()
            return future.result()
        except asyncio.CancelledError:
            raise ClosedError("The consumer was closed during the call") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._calls = before

    async def _call_in_users_thread(self, function: Callable[[], object]) -> object:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()

        def settle(result: object, error: Exception | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def call() -> None:
            try:
                result = function()
            except Exception as error:
                loop.call_soon_threadsafe(settle, None, error)
            else:
                loop.call_soon_threadsafe(settle, result, None)

        self._calls.put(call)
        result = await done
        return await result if inspect.isawaitable(result) else result


def _next(calls: SimpleQueue[Callable[[], None] | None]) -> Callable[[], None] | None:
    while True:
        try:
            return calls.get(timeout=LOOK_UP)
        except Empty:
            continue
