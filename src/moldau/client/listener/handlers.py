"""Calling the user's handler: on the event loop, in threads, or in processes."""

from __future__ import annotations

import asyncio
import inspect
import logging
import multiprocessing
import pickle
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, Protocol

from moldau.client.errors import ConfigError
from moldau.machine import DaemonThreads, Threads
from moldau.records.consumer_record import ConsumerRecord

logger: Final = logging.getLogger(__name__)

Decode = Callable[[ConsumerRecord], ConsumerRecord]
"""Deserializes a copy of a record."""


class Acknowledgment(Protocol):
    """The second argument of handlers with manual acknowledgment."""

    def acknowledge(self) -> None:
        """The record is done. May come from any thread, also after the handler has returned."""


class Caller(Protocol):
    """Calls the handler with a record, and with an acknowledgment if it is not None."""

    async def __call__(self, record: ConsumerRecord, ack: Acknowledgment | None) -> None: ...

    def close(self) -> None:
        """Leave behind what still runs."""


def caller(
    handler: Callable[..., object],
    decode: Decode,
    threads: Threads,
    *,
    workers: str,
    concurrency: int,
) -> Caller:
    """The way to call this handler."""
    call = getattr(handler, "__call__", handler)  # noqa: B004 - the method, where there is one
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
        if workers == "processes":
            raise ConfigError("a coroutine runs on the event loop, not in processes")
        return _OnLoop(handler, decode)
    if workers == "processes":
        return _InProcesses(_Call(handler, decode), concurrency)
    return _InThreads(_Call(handler, decode), threads.daemons(concurrency, "moldau listener"))


class _Call:
    """One call from beginning to end; crosses process borders if its parts can be pickled."""

    def __init__(self, handler: Callable[..., object], decode: Decode) -> None:
        self.handler = handler
        self.decode = decode

    def __call__(self, record: ConsumerRecord, ack: Acknowledgment | None) -> None:
        record = self.decode(record)
        if ack is None:
            self.handler(record)
        else:
            self.handler(record, ack)


class _OnLoop:
    def __init__(self, handler: Callable[..., Any], decode: Decode) -> None:
        self._handler: Callable[..., Coroutine[Any, Any, object]] = handler
        self._decode = decode

    async def __call__(self, record: ConsumerRecord, ack: Acknowledgment | None) -> None:
        record = self._decode(record)
        if ack is None:
            await self._handler(record)
        else:
            await self._handler(record, ack)

    def close(self) -> None:
        pass


class _InThreads:
    """A handler that never returns keeps neither others waiting nor the process from ending."""

    def __init__(self, call: _Call, threads: DaemonThreads) -> None:
        self._call = call
        self._threads = threads

    async def __call__(self, record: ConsumerRecord, ack: Acknowledgment | None) -> None:
        await self._threads.run(self._call_safely, record, ack)

    def _call_safely(self, record: ConsumerRecord, ack: Acknowledgment | None) -> None:
        try:
            self._call(record, ack)
        except Exception:
            raise
        except BaseException as error:
            # sys.exit() in a handler ends neither the thread nor the event loop.
            raise RuntimeError(f"the handler raised {error!r}") from error

    def close(self) -> None:
        self._threads.close()


class _InProcesses:
    def __init__(self, call: _Call, concurrency: int) -> None:
        try:
            pickle.dumps(call)
        except Exception as error:
            raise ConfigError(
                f"a handler in processes must be importable there, with its deserializers: {error}"
            ) from error
        self._call = call
        self._concurrency = concurrency
        self._pool = self._new_pool()

    async def __call__(self, record: ConsumerRecord, ack: Acknowledgment | None) -> None:
        assert ack is None, "settings refuse manual acknowledgment in processes"
        pool = self._pool
        try:
            await asyncio.wrap_future(pool.submit(_in_process, record))
        except BrokenProcessPool:
            if pool is self._pool:
                logger.warning("A process of the listener has died; new ones take over")
                self._pool = self._new_pool()
            raise

    def close(self) -> None:
        # The pool would wait for handlers that never return, here or when the program ends.
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()

    def _new_pool(self) -> ProcessPoolExecutor:
        # Not fork: this process has threads and an event loop.
        return ProcessPoolExecutor(
            self._concurrency,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_prepare_process,
            initargs=(self._call,),
        )


_process_call: _Call | None = None


def _prepare_process(call: _Call) -> None:
    global _process_call
    _process_call = call


def _in_process(record: ConsumerRecord) -> None:
    assert _process_call is not None
    _process_call(record, None)
