"""A cluster on this machine, for ``moldau up --brokers N``: a process that coordinates, N brokers,
and this one, which starts them, passes on what they say, and starts again what dies.

The children end with this process, however it ends: each holds the reading end of a pipe whose
writing end only this process has (``MOLDAU_LIFELINE_FD``).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.output import print_line, tell
from moldau.config.replicated import replication_settings
from moldau.machine.real.loop import run as run_loop

READY: Final = "moldau ready: "
COORDINATION: Final = "coordination"
BROKERS: Final = "brokers"
"""Folders of the data directory. Unlike those of partitions, their names end with no number."""
OF_ONE_BROKER: Final = "meta.properties"
OWN_SETTINGS: Final = ("node.id", "broker.id", "listeners", "log.dirs", "log.dir")
COORDINATED_AT: Final = "zookeeper.connect"

MOST_BROKERS: Final = 100
START_S: Final = 120.0
STOP_S: Final = 120.0
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 10.0
STEADY_S: Final = 30.0
"""Who has lived for so long and dies is started again as if for the first time."""
LAST_WORDS: Final = 20
"""Lines of a child's log that are shown when it cannot start."""


@dataclass(slots=True)
class Child:
    """A program of the cluster, over all of its lives."""

    name: str
    command: Sequence[str]
    process: Process | None = None
    address: str = ""
    """Where it listens, once it has said so."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    words: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))
    """The last lines of its log."""


def run(
    brokers: int, port: int, host: str, data_dir: Path, override: Sequence[str], log_level: str
) -> int:
    """Serve until SIGTERM or SIGINT."""
    if not 1 <= brokers <= MOST_BROKERS:
        raise UsageError(f"--brokers is {brokers}: use 1 to {MOST_BROKERS}")
    if port and port + brokers - 1 > 65535:
        raise UsageError(f"{brokers} brokers from port {port} on need ports above 65535")
    for text in override:
        name = text.partition("=")[0].strip()
        if name in (*OWN_SETTINGS, COORDINATED_AT):
            raise UsageError(f"--override {name}: each broker of a cluster is given its own")
    if (data_dir / OF_ONE_BROKER).exists():
        raise CommandError(
            f"{data_dir} holds the data of one broker, which cannot become a cluster. "
            "Choose another directory with --data-dir."
        )
    (data_dir / BROKERS).mkdir(parents=True, exist_ok=True)
    coordination = f"127.0.0.1:{_free_port()}"
    directory = data_dir.absolute()
    shown = f"[{host}]" if ":" in host else host
    children = [
        Child(
            f"broker {node}",
            _broker_command(
                {
                    "node.id": str(node),
                    "listeners": f"PLAINTEXT://{shown}:{port + node - 1 if port else 0}",
                    "log.dirs": str(directory / BROKERS / str(node)),
                    COORDINATED_AT: coordination,
                    **replication_settings(brokers),
                },
                override,
                log_level,
            ),
        )
        for node in range(1, brokers + 1)
    ]
    store = Child(
        COORDINATION,
        _moldau(
            *("coordination", "serve", "--listen", coordination),
            *("--data-dir", str(directory / COORDINATION)),
        ),
    )
    return run_loop(_Supervisor(store, children, data_dir).run())


def _moldau(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "moldau.cli", *arguments]


def _broker_command(settings: dict[str, str], override: Sequence[str], log_level: str) -> list[str]:
    command = _moldau("broker", "--log-level", log_level)
    for text in (*(f"{name}={value}" for name, value in settings.items()), *override):
        command += ["--override", text]
    return command


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class _Supervisor:
    def __init__(self, coordination: Child, brokers: Sequence[Child], data_dir: Path) -> None:
        self._coordination = coordination
        self._brokers = brokers
        self._data_dir = data_dir
        self._stopping = asyncio.Event()
        self._failure: CommandError | None = None
        self._lifeline, self._held = os.pipe()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._asked_to_stop)
        # Brokers wait for coordination by themselves: nothing is gained by starting them later.
        children = [self._coordination, *self._brokers]
        keeping = [asyncio.create_task(self._keep(child)) for child in children]
        announcing = asyncio.create_task(self._announce(children))
        await self._stopping.wait()
        announcing.cancel()
        await asyncio.gather(*(self._stop(child) for child in self._brokers))
        await self._stop(self._coordination)
        await asyncio.gather(*keeping)
        if self._failure is not None:
            raise self._failure
        return 0

    def _asked_to_stop(self) -> None:
        if self._stopping.is_set():
            # Asked twice: somebody does not want to wait.
            for child in (*self._brokers, self._coordination):
                _send(child, signal.SIGKILL)
        self._stopping.set()

    async def _announce(self, children: Sequence[Child]) -> None:
        """Say that the cluster is up when all of it is."""
        for child in children:
            await child.ready.wait()
        addresses = [broker.address for broker in self._brokers]
        tell(self._banner(addresses))
        print_line(f"{READY}cluster listening on {','.join(addresses)}", flush=True)

    def _banner(self, addresses: Sequence[str]) -> str:
        from moldau import __version__
        from moldau.cli.serve import example_lines

        return "\n".join(
            (
                f"Moldau {__version__} is up: {len(addresses)} brokers.",
                "",
                f"  listen on     {', '.join(addresses)}",
                f"  coordination  {self._coordination.address}",
                f"  data in       {self._data_dir.absolute()}",
                "",
                *example_lines(addresses[0]),
                "",
                "What dies is started again. Ctrl-C stops all of it.",
            )
        )

    # A child's lives

    async def _keep(self, child: Child) -> None:
        """Have the child run until everything stops."""
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            started = time.monotonic()
            code = await self._live(child)
            if self._stopping.is_set():
                return
            if not child.ready.is_set():
                self._give_up(child, f"ended with exit code {code} before it was ready")
                return
            tell(f"{child.name} {_ending(code)}; it is started again")
            if time.monotonic() - started > STEADY_S:
                pause = FIRST_PAUSE_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _live(self, child: Child) -> int:
        """Returns the exit code, or the negative number of the signal, that ended the child."""
        process = child.process = await asyncio.create_subprocess_exec(
            *child.command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            pass_fds=(self._lifeline,),
            env={**os.environ, "MOLDAU_LIFELINE_FD": str(self._lifeline)},
            # Ctrl-C is for this process, which stops the others in order.
            start_new_session=True,
        )
        if self._stopping.is_set():
            _send(child, signal.SIGTERM)
        await asyncio.gather(self._pass_on_log(child), self._await_ready(child))
        return await process.wait()

    async def _await_ready(self, child: Child) -> None:
        process = child.process
        assert process is not None
        assert process.stdout is not None
        limit = asyncio.get_running_loop().call_later(
            START_S, lambda: self._give_up(child, f"was not ready after {START_S:g} s")
        )
        try:
            async for line in process.stdout:
                text = line.decode(errors="replace").rstrip("\n")
                if text.startswith(READY):
                    child.address = text.rpartition(" listening on ")[2]
                    child.ready.set()
                    limit.cancel()
        finally:
            limit.cancel()

    async def _pass_on_log(self, child: Child) -> None:
        process = child.process
        assert process is not None
        assert process.stderr is not None
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:
                continue  # longer than any line of a log: it was dropped
            if not line:
                return
            text = line.decode(errors="replace").rstrip("\n")
            child.words.append(text)
            tell(f"{child.name} | {text}")

    def _give_up(self, child: Child, what: str) -> None:
        """A child that never was ready will not be at the next attempt: say so and stop."""
        if self._failure is None and not self._stopping.is_set():
            words = "\n".join(f"  {line}" for line in child.words)
            self._failure = CommandError(
                f"{child.name} {what}." + (f" Its last words:\n{words}" if words else "")
            )
        self._stopping.set()

    async def _stop(self, child: Child) -> None:
        """SIGTERM, and SIGKILL for who does not listen."""
        process = child.process
        if process is None:
            return
        _send(child, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            tell(f"{child.name} does not stop; it is killed")
            _send(child, signal.SIGKILL)


def _send(child: Child, number: signal.Signals) -> None:
    if child.process is not None and child.process.returncode is None:
        with suppress(ProcessLookupError):
            child.process.send_signal(number)


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
