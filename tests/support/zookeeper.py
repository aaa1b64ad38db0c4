"""A real Apache ZooKeeper: one standalone server process."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from typing import Self

from tests.support.java import ROOT
from tests.support.process import START_TIMEOUT_S, ServerProcess, free_port

_POM = ROOT / "tests/java/zookeeper/pom.xml"
VERSION: str = re.findall(r"<zookeeper.version>(.*)</zookeeper.version>", _POM.read_text())[0]
JARS = ROOT / ".cache" / f"zookeeper-{VERSION}"
FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
TICK_MS = 100
"""A session may be as short as two ticks."""


class ZooKeeper:
    """The directory is kept for the next start, and so is the port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self._process: ServerProcess | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if not (JARS / ".complete").exists():
            raise RuntimeError(f"{JARS} is not complete: run `make zookeeper`")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        config = self.directory / "zoo.cfg"
        settings = {
            "dataDir": str(self.directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(TICK_MS),
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = ["java", *FLAGS, "-cp", f"{JARS}/*", "-Dzookeeper.forceSync=no"]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        output = self.directory / "zookeeper.log"
        self._process = ServerProcess([*command, main, str(config)], output)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if not self._process.running or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"ZooKeeper does not start:\n{self._process.text()[-4000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.sendall(b"srvr")
                return probe.recv(100).startswith(b"Zookeeper version")
        except OSError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
