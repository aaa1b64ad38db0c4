"""Checks of batches that would hold up the event loop: those whose records decompress to much.

They go to a thread, a few at a time, so that threads are left for everything else and the memory
that a decoder takes is taken a few times only. The connection waits; its records are kept aside,
because the buffer they came in is read into by others.
"""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.log import CheckedBatch, DecompressionBudget, PartitionLog
from moldau.machine.threads import RunInThread

AT_ONCE: Final = 2


class LongChecks:
    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        self._places = asyncio.Semaphore(AT_ONCE)

    async def check(
        self, log: PartitionLog, records: bytearray, now_ms: int, budget: DecompressionBudget
    ) -> CheckedBatch:
        """Returns what ``PartitionLog.append_as_leader`` takes, or raises as it does."""
        async with self._places:
            budget.in_thread()
            try:
                return await self._run_in_thread(log.check, memoryview(records), now_ms, budget)
            finally:
                budget.next_turn()
