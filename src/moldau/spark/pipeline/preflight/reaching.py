"""A cluster through the first of its servers that answers: all of them are tried at once.

One after the other, as clients do it, a server that is off would take up the time of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import Any, Final, TypeVar

from moldau.client.cluster import Cluster
from moldau.client.errors import ConnectionLostError, NoBrokersError, TimedOutError
from moldau.client.settings import AdminSettings
from moldau.errors import KafkaError
from moldau.net.address import show

T = TypeVar("T")

_PAUSE: Final = 0.1
_SHARE: Final = 0.9
"""Of the time that there is: whoever waits hears what failed, and not only that time is up."""
_SETUP_SHARE: Final = 0.8


async def reach(settings: Mapping[str, object], patience: float) -> Cluster:
    """What the servers fail with is raised if none answers: silence before refused connections."""
    milliseconds = int(patience * 1000)
    limits = {
        "request.timeout.ms": milliseconds,
        "socket.connection.setup.timeout.ms": int(milliseconds * _SETUP_SHARE),
        "socket.connection.setup.timeout.max.ms": int(milliseconds * _SETUP_SHARE),
    }
    servers = AdminSettings(dict(settings)).bootstrap_servers
    clusters = [
        Cluster(AdminSettings({**settings, **limits, "bootstrap.servers": show(*address)}))
        for address in servers
    ]
    end = asyncio.get_running_loop().time() + patience * _SHARE
    tasks = [asyncio.create_task(_started(cluster, end)) for cluster in clusters]
    failures: list[KafkaError] = []
    chosen: Cluster | None = None
    try:
        for one in asyncio.as_completed(tasks):
            try:
                chosen = await one
            except KafkaError as error:
                failures.append(error)
            else:
                return chosen
        raise _most_telling(failures)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for cluster in clusters:
            if cluster is not chosen:
                await cluster.close()


async def _started(cluster: Cluster, end: float) -> Cluster:
    """Brokers may just be starting."""
    failure: KafkaError | None = None
    try:
        async with asyncio.timeout_at(end):
            while True:
                try:
                    await cluster.start()
                except (NoBrokersError, ConnectionLostError) as error:
                    failure = error
                    await asyncio.sleep(_PAUSE)
                else:
                    return cluster
    except TimeoutError:
        silent = TimedOutError(f"{cluster.settings.servers} did not answer in time")
        raise failure or silent from None


def _most_telling(failures: Sequence[KafkaError]) -> KafkaError:
    """A login that is refused says more than silence, and silence more than no connection."""
    unreached = (NoBrokersError, ConnectionLostError)
    for error in sorted(failures, key=lambda one: isinstance(one, TimedOutError)):
        if not isinstance(error, unreached):
            return error
    return NoBrokersError("; ".join(dict.fromkeys(error.message for error in failures)))


class UnwaitedThreads(ThreadPoolExecutor):
    """Threads that nobody waits for at the end: looking up a name may take a minute.

    It is a pool only by its type, which event loops insist on.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # raised where the future is waited for
                future.set_exception(error)

        Thread(target=run, name="preflight lookup", daemon=True).start()
        return future
