"""A process that serves the tree: from the directory to the port, until it is asked to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.errors import StoreUnavailableError
from moldau.coordination.server.server import CoordinationServer
from moldau.coordination.storage import DiskStorage
from moldau.machine import Machine


async def serve(
    machine: Machine, host: str, port: int, directory: str, on_ready: Callable[[int], object]
) -> None:
    """Serve the store in a directory until SIGTERM or SIGINT; ``on_ready`` gets the real port.

    Raises OSError for an address that cannot be had, CoordinationError for a directory that cannot
    be used or a disk that has failed.
    """
    stop = asyncio.Event()
    machine.signals.on_stop(stop.set)
    storage = DiskStorage(machine.disk, machine.disk.absolute(directory))
    try:
        store = await EmbeddedStore.open(
            storage, machine.threads.run, machine.clock.now_ms, keeps_sessions=True
        )
        store.on_failure = stop.set
        try:
            server = CoordinationServer(machine, store, host, port)
            try:
                server.start()
                on_ready(server.port)
                await stop.wait()
            finally:
                server.close()
        finally:
            has_failed = not store.is_usable
            await store.close()
    finally:
        machine.threads.close()
    if has_failed:
        raise StoreUnavailableError("stopped, because the disk of the coordination store failed")
