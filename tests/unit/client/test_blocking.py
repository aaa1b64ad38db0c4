"""Async clients behind blocking calls: threads, Ctrl-C, fork, and the end of the process."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading

import pytest

from moldau.client.blocking import BlockingClient, LoopThread, blocking
from moldau.client.errors import ClosedError


class AsyncThing:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.started = threading.Event()

    async def add(self, one: int, *, other: int = 1) -> int:
        """Adds up."""
        await asyncio.sleep(0)
        return one + other

    async def fail(self) -> None:
        raise ValueError("no")

    async def wait(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def was_cancelled(self) -> bool:
        await self.cancelled.wait()
        return True


class Thing(BlockingClient[AsyncThing]):
    def __init__(self) -> None:
        super().__init__(AsyncThing(), "thing")

    add = blocking(AsyncThing.add)
    fail = blocking(AsyncThing.fail)
    wait = blocking(AsyncThing.wait)
    was_cancelled = blocking(AsyncThing.was_cancelled)

    def close(self) -> None:
        self._thread.stop()


def test_methods_keep_their_signature_and_documentation() -> None:
    assert Thing.add.__doc__ == "Adds up."
    assert str(inspect.signature(Thing.add)) == "(self, one: 'int', *, other: 'int' = 1) -> 'int'"
    assert not inspect.iscoroutinefunction(Thing.add)


def test_calls_come_from_any_thread() -> None:
    thing = Thing()
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(thing.add(n, other=10)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(10, 18))
    with pytest.raises(ValueError, match="no"):
        thing.fail()
    thing.close()


def test_ctrl_c_cancels_the_call_and_leaves_the_client_usable() -> None:
    thing = Thing()

    def press() -> None:
        thing._inner.started.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        thing.wait()
    presser.join()
    assert thing.was_cancelled()
    assert thing.add(1) == 2
    thing.close()


def test_after_close_calls_are_refused() -> None:
    thing = Thing()
    assert thing.add(1) == 2
    thing.close()
    thing.close()
    with pytest.raises(ClosedError, match="The thing is closed"):
        thing.add(1)


def test_closing_ends_a_call_of_another_thread() -> None:
    thing = Thing()
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            thing.wait()
        except ClosedError as error:
            failures.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    thing._inner.started.wait(60)
    thing.close()
    waiter.join(60)
    assert str(failures[0]).endswith("The thing was closed during the call")


def test_a_call_from_the_loop_itself_is_refused() -> None:
    thread = LoopThread("thing")

    async def inside() -> None:
        other = asyncio.sleep(0)
        thread.run(other)

    with pytest.raises(RuntimeError, match="from its own event loop"):
        thread.run(inside())
    thread.stop()


SCRIPT = """
import os
from tests.unit.client.test_blocking import Thing
from moldau.client.errors import ClosedError

thing = Thing()
assert thing.add(1) == 2
child = os.fork()
if child == 0:
    try:
        thing.add(1)
    except ClosedError as error:
        assert "before a fork" in str(error), error
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert thing.add(1) == 2
print("end")
"""


def test_forked_children_are_told_and_an_unclosed_client_lets_the_process_end() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
