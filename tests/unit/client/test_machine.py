"""Clients take time, chance, ids and threads from the machine that they are given."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, ParamSpec, TypeVar

from tests.support.in_process import InProcessBroker

from moldau import AsyncAdmin, AsyncConsumer, AsyncListener, AsyncProducer, NewTopic
from moldau.machine import Machine
from moldau.machine.real import this_machine
from moldau.machine.real.clock import SystemClock
from moldau.records.consumer_record import ConsumerRecord

P = ParamSpec("P")
T = TypeVar("T")

TODAY = 1_234_567_890_123


class StoppedCalendar(SystemClock):
    def now_ms(self) -> int:
        return TODAY


class NoThreads:
    """What a simulation has instead of threads: the event loop."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    def daemons(self, most: int, name: str) -> NoThreads:
        return self

    def close(self) -> None: ...


def machine(seed: int = 7) -> Machine:
    return replace(
        this_machine(),
        clock=StoppedCalendar(),
        random=Random(seed),
        secrets=Random(seed),
        threads=NoThreads(),
    )


async def test_records_carry_the_machines_time_and_handlers_run_where_it_says(
    tmp_path: Path,
) -> None:
    seen: list[tuple[ConsumerRecord, int]] = []
    async with InProcessBroker(tmp_path) as broker:
        settings: dict[str, Any] = {"bootstrap_servers": broker.address, "machine": machine()}
        async with AsyncAdmin(**settings) as admin:
            (created,) = await admin.create_topics([NewTopic("orders", 1)])
            created.get()
        async with AsyncProducer(**settings) as producer:
            await (await producer.send("orders", b"one"))
            await (await producer.send_many("orders", [b"two"]))

        def handle(record: ConsumerRecord) -> None:
            seen.append((record, threading.get_ident()))
            if len(seen) == 2:
                listener.stop()

        listener = AsyncListener(
            "orders", handle, group_id="g", auto_offset_reset="earliest", **settings
        )
        await listener.run()
    assert [(record.value, record.timestamp) for record, _ in seen] == [
        (b"one", TODAY),
        (b"two", TODAY),
    ]
    assert {thread for _, thread in seen} == {threading.get_ident()}


async def test_ids_follow_from_the_machines_secrets() -> None:
    def member_id(seed: int) -> str:
        consumer = AsyncConsumer(
            bootstrap_servers="nowhere",
            group_id="g",
            group_protocol="consumer",
            machine=machine(seed),
        )
        assert consumer._core.driver is not None
        return consumer._core.driver.member.identity.member_id

    assert member_id(1) == member_id(1) != member_id(2)


FORK = """
import os, sys
from moldau.machine.real import this_machine
before = this_machine()
child = os.fork()
if child == 0:
    os._exit(0 if this_machine() is not before else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if this_machine() is before else 2)
"""


def test_a_child_process_has_a_machine_of_its_own() -> None:
    """Threads do not survive a fork, and chance must not repeat itself."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=150)
