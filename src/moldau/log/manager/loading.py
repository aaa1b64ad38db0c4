"""Opening all log directories at the start, and the partitions in them, in threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from moldau.config import (
    NUM_RECOVERY_THREADS_PER_DATA_DIR,
    PRODUCER_ID_EXPIRATION_MS,
    BrokerConfig,
    TopicConfig,
)
from moldau.log.directory.log_directory import DirectoryContent, LoadResult, LogDirectory
from moldau.machine import RunInThread

_log = logging.getLogger(__name__)

PARTITIONS_PER_JOB: Final = 256


async def open_directories(
    directories: Iterable[LogDirectory],
    run_in_thread: RunInThread,
    on_failure: Callable[[LogDirectory, OSError], None],
) -> dict[str, DirectoryContent]:
    """Lock them and look what is in them; those that fail are left out.

    One that another broker has locked stops the start at once (BlockingIOError).
    """
    contents: dict[str, DirectoryContent] = {}
    for directory in directories:
        try:
            contents[directory.path] = await run_in_thread(directory.open)
        except BlockingIOError:
            raise
        except OSError as error:
            on_failure(directory, error)
    return contents


async def load_partitions(
    directory: LogDirectory,
    content: DirectoryContent,
    topic_config: Callable[[str], TopicConfig],
    config: BrokerConfig,
    now_ms: Callable[[], int],
    run_in_thread: RunInThread,
    on_loaded: Callable[[LoadResult], None],
) -> None:
    """Open every partition of a directory; ``on_loaded`` gets them as they come."""
    names = content.partitions
    if not content.clean and names:
        _log.info("%s was not closed cleanly, checking %d logs", directory.path, len(names))
    chunks = [
        names[start : start + PARTITIONS_PER_JOB]
        for start in range(0, len(names), PARTITIONS_PER_JOB)
    ]
    # Opening a clean log is a few small system calls: threads would only fight for the lock of
    # the interpreter. Recovery reads and checks data, which runs beside other threads.
    threads = 1 if content.clean else config[NUM_RECOVERY_THREADS_PER_DATA_DIR]
    free_threads = asyncio.Semaphore(threads)

    async def load(chunk: list[str]) -> None:
        async with free_threads:
            result = await run_in_thread(
                directory.load,
                chunk,
                content,
                topic_config,
                now_ms(),
                config[PRODUCER_ID_EXPIRATION_MS],
            )
        on_loaded(result)

    await asyncio.gather(*(load(chunk) for chunk in chunks))
