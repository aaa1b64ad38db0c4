"""Handlers on the loop and in threads: arguments, errors, and the end."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from moldau.client.errors import ConfigError
from moldau.client.listener.handlers import Caller, caller
from moldau.machine.real.threads import WorkerThreads
from moldau.records.consumer_record import ConsumerRecord


def record(offset: int = 0) -> ConsumerRecord:
    return ConsumerRecord("orders", 0, offset, value=b"v")


def same(one: ConsumerRecord) -> ConsumerRecord:
    return one


def make(handler: object, concurrency: int = 2) -> Caller:
    return caller(
        handler,  # type: ignore[arg-type]
        same,
        WorkerThreads(),
        workers="threads",
        concurrency=concurrency,
    )


class Ack:
    def acknowledge(self) -> None:
        pass


async def test_functions_run_in_other_threads_and_get_what_they_are_given() -> None:
    calls: list[tuple[object, ...]] = []

    def handle(*args: object) -> None:
        calls.append((threading.current_thread() is threading.main_thread(), *args))

    call, ack, one = make(handle), Ack(), record()
    await call(one, None)
    await call(one, ack)
    call.close()
    assert calls == [(False, one), (False, one, ack)]


async def test_as_many_threads_as_are_needed_and_no_more() -> None:
    barrier = threading.Barrier(3, timeout=60)
    names = set()

    def handle(_: ConsumerRecord) -> None:
        names.add(threading.current_thread().name)
        barrier.wait()

    call = make(handle, concurrency=3)
    for _ in range(3):
        await asyncio.gather(*(call(record(n), None) for n in range(3)))
    call.close()
    assert len(names) == 3


async def test_errors_come_back() -> None:
    def handle(_: ConsumerRecord) -> None:
        raise KeyError("sku")

    call = make(handle)
    with pytest.raises(KeyError, match="sku"):
        await call(record(), None)
    call.close()


async def test_a_handler_that_exits_has_only_failed() -> None:
    call = make(lambda _: sys.exit(3))
    with pytest.raises(RuntimeError, match=r"the handler raised SystemExit\(3\)"):
        await call(record(), None)
    with pytest.raises(RuntimeError):
        await call(record(), None)
    call.close()


async def test_coroutine_functions_and_objects_run_on_the_loop() -> None:
    loops = []

    async def handle(_: ConsumerRecord) -> None:
        loops.append(asyncio.get_running_loop())

    class Handler:
        async def __call__(self, _: ConsumerRecord) -> None:
            loops.append(asyncio.get_running_loop())

    for handler in (handle, Handler()):
        await make(handler)(record(), None)
    assert loops == [asyncio.get_running_loop()] * 2


def test_a_coroutine_does_not_go_to_processes() -> None:
    async def handle(_: ConsumerRecord) -> None: ...

    with pytest.raises(ConfigError, match="not in processes"):
        caller(handle, same, WorkerThreads(), workers="processes", concurrency=1)


async def test_a_decoder_sees_the_record_first() -> None:
    seen = []

    def decode(one: ConsumerRecord) -> ConsumerRecord:
        return ConsumerRecord(one.topic, one.partition, one.offset, value="decoded")

    call = caller(
        lambda one: seen.append(one.value),
        decode,
        WorkerThreads(),
        workers="threads",
        concurrency=1,
    )
    await call(record(), None)
    call.close()
    assert seen == ["decoded"]
