"""What a stranger's request costs the broker: its event loop, everybody else, its memory.

Under load from elsewhere the time that others wait says more about the machine than about the
broker; the CPU time of the thread with the event loop does not depend on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.support.wire import WireClient

from moldau.testing.broker import MoldauProcess
from moldau.wire.api import ApiKey

T = TypeVar("T")

MIB = 1024 * 1024


class Cost(NamedTuple):
    loop_ms: float
    """CPU time of the thread with the event loop."""
    wait_ms: float
    """The longest that another connection waited for an answer."""
    memory: int
    """Bytes by which the peak of the process's memory is above what it had before."""


async def cost_of(broker: MoldauProcess, attack: Callable[[], Awaitable[T]]) -> tuple[T, Cost]:
    process = Path(f"/proc/{broker.pid}")
    async with await WireClient.connect(broker.bootstrap_servers) as other:
        (process / "clear_refs").write_text("5")  # the peak is counted from here
        before, start = _status(process, "VmRSS"), _loop_ms(process)
        waiting = asyncio.create_task(_longest_wait(other))
        try:
            result = await attack()
        finally:
            waiting.cancel()
        loop_ms = _loop_ms(process) - start
        longest = await waiting
        return result, Cost(loop_ms, longest, _status(process, "VmHWM") - before)


async def _longest_wait(client: WireClient) -> float:
    longest = 0.0
    try:
        while True:
            start = time.perf_counter()
            answer = asyncio.ensure_future(client.call(ApiKey.API_VERSIONS, 0))
            try:
                await asyncio.shield(answer)
            except asyncio.CancelledError:
                await answer
                raise
            finally:
                longest = max(longest, time.perf_counter() - start)
            await asyncio.sleep(0.001)
    except asyncio.CancelledError:
        return 1000 * longest


def _loop_ms(process: Path) -> float:
    nanoseconds = (process / "task" / process.name / "schedstat").read_text().split()[0]
    return int(nanoseconds) / 1e6


def _status(process: Path, field: str) -> int:
    for line in (process / "status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)
