"""Our own coordination server as a process, in the place of a ZooKeeper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self

from tests.support.process import ServerProcess, free_port


class CoordinationProcess:
    """``moldau coordination serve``; the directory is kept for the next start, and so is the
    port.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.process: ServerProcess | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        command = [sys.executable, "-m", "moldau.cli", "coordination", "serve"]
        command += ["--listen", self.address, "--data-dir", str(self.data_dir)]
        self.process = ServerProcess(command, self.directory / "coordination.log")
        self.process.wait_for("moldau ready: ")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None

    def stop(self) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        return process.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
