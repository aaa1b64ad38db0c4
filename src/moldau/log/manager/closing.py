"""Closing the logs of a directory so that the next start needs no recovery."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Final

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import StorageError
from moldau.log.partition.flush_job import FlushJob
from moldau.log.partition.log import PartitionLog
from moldau.machine import Machine
from moldau.machine.disk import Disk

_log = logging.getLogger(__name__)

_LOGS_AT_ONCE: Final = 1024
_JOBS_SYNCED_ONE_BY_ONE: Final = 16


async def close_logs(
    logs: Sequence[PartitionLog], directory: LogDirectory, machine: Machine
) -> bool:
    """Bring logs into their final form and make them durable; returns whether all of them are."""
    run_in_thread = machine.threads.run
    clean = directory.is_online
    runs: list[Awaitable[list[tuple[PartitionLog, OSError]]]] = []
    jobs: list[tuple[PartitionLog, FlushJob]] = []
    for start in range(0, len(logs), _LOGS_AT_ONCE):
        prepared: list[tuple[PartitionLog, FlushJob]] = []
        for log in logs[start : start + _LOGS_AT_ONCE]:
            try:
                job = log.prepare_close()
            except StorageError as error:
                _log.error("%s is not closed cleanly: %s", log.topic_partition, error.message)
                clean = False
                continue
            if job is not None:
                prepared.append((log, job))
        # In threads, while the next ones are prepared.
        runs.append(
            asyncio.ensure_future(run_in_thread(_run_jobs, machine.disk, directory.path, prepared))
        )
        jobs += prepared
        await asyncio.sleep(0)
    for failed in await asyncio.gather(*runs):
        for log, reason in failed:
            log.health.fail(f"flush: {reason}")  # passing or not: it is not closed cleanly
            clean = False
    now_ms = machine.clock.now_ms()
    for log, job in jobs:
        if log.failure is None:
            log.durability.complete_flush(job, now_ms)
    return clean


def _run_jobs(
    disk: Disk, path: str, jobs: list[tuple[PartitionLog, FlushJob]]
) -> list[tuple[PartitionLog, OSError]]:
    """Run flushes (in a worker thread); returns those that failed.

    Very many files are faster synced all at once, with everything else on their file system.
    """
    together = len(jobs) > _JOBS_SYNCED_ONE_BY_ONE
    failed = []
    for log, job in jobs:
        try:
            if together:
                job.run_before_filesystem_sync()
            else:
                job.run()
        except OSError as error:
            failed.append((log, error))
    if together:
        try:
            disk.sync_filesystem(path)
        except OSError as error:
            failed = [(log, error) for log, _ in jobs]
    return failed
