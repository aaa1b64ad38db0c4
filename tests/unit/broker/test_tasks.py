"""Background work: kept alive, never failing in silence, ended at shutdown."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.support.logs import records_of

from moldau.broker.tasks import Tasks


async def test_work_runs_to_its_end_although_nobody_holds_it() -> None:
    done = asyncio.Event()

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            gc.collect()
        done.set()

    Tasks().spawn(work())
    async with asyncio.timeout(60):
        await done.wait()


async def test_a_failure_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()

    async def work() -> None:
        raise ValueError("of no value")

    tasks.spawn(work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (record,) = records_of(caplog, "moldau.broker")
    assert record.exc_info is not None
    assert "of no value" in str(record.exc_info[1])


async def test_cancel_ends_what_is_left_and_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = Tasks()
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    for number in range(3):
        tasks.spawn(work(number))
    await asyncio.sleep(0)
    await tasks.cancel()
    assert sorted(ended) == [0, 1, 2]
    assert records_of(caplog, "moldau.broker") == []
    await tasks.cancel()
