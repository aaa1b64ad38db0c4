"""Reading a file or stdin without holding up the event loop.

A pipe or a terminal is read when the loop says that there is something, so that Ctrl-C and
acknowledgements work while nobody types. Regular files are always ready (and cannot be watched):
they are just read.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

CHUNK = 256 * 1024


async def read_chunks(file: Path | None) -> AsyncIterator[bytes]:
    """The bytes of ``file``, or of stdin."""
    if file is not None:
        with file.open("rb") as opened:
            async for chunk in _read(opened.fileno()):
                yield chunk
    else:
        async for chunk in _read(sys.stdin.fileno()):
            yield chunk


async def _read(descriptor: int) -> AsyncIterator[bytes]:
    watched = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    while True:
        if watched:
            try:
                await _readable(descriptor)
            except PermissionError:  # /dev/null and its like: always ready as well
                watched = False
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            return
        yield chunk
        if not watched:
            await asyncio.sleep(0)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
