"""A Spark standalone cluster on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyspark
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.processes import at_work_in
from tests.support.process import ServerProcess

from moldau.spark.java import find_java

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


class StandaloneCluster:
    """A master, and a worker with one core on each of the hosts."""

    def __init__(self, directory: Path, stack: ExitStack, hosts: Sequence[str]) -> None:
        self._directory = directory
        self._stack = stack
        master = self._start("master.Master", "127.0.0.1")
        ready = master.wait_for("Starting Spark master at ")
        self.url = ready.rpartition(" ")[2]
        self.work = [directory / f"work-{number}" for number, _ in enumerate(hosts)]
        sizes = ("--cores", "1", "--memory", "512m")
        self._workers = [
            self._start("worker.Worker", host, self.url, *sizes, "--work-dir", str(work))
            for host, work in zip(hosts, self.work, strict=True)
        ]
        for worker in self._workers:
            worker.wait_for("Successfully registered with master")

    def killed_executors(self) -> int:
        """How many executors have ended by SIGKILL, as far as the workers have noticed."""
        return sum(worker.text().count("exitStatus 137") for worker in self._workers)

    def executors(self) -> list[int]:
        """Executors and their Python processes that are left."""
        return [pid for work in self.work for pid in at_work_in(work)]

    def _start(self, name: str, host: str, *arguments: str) -> ServerProcess:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        place = ("--host", host, "--port", "0", "--webui-port", "0")
        process = ServerProcess(
            [str(program), f"org.apache.spark.deploy.{name}", *place, *arguments],
            self._directory / f"{name}-{len(list(self._directory.iterdir()))}.log",
            {
                "JAVA_HOME": str(find_java().home),
                "SPARK_LOCAL_IP": host,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
                "PYTHONPATH": PYTHONPATH,
            },
        )
        self._stack.callback(process.kill)
        return process
