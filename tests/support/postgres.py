"""A PostgreSQL server of the tests' own: a fresh cluster in a directory, on a socket there."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Postgres:
    """``with Postgres() as server: connect(server.url("name"))``.

    Not in pytest's directory: that one is closed to the user whom PostgreSQL runs as.
    """

    def __init__(self, **settings: str) -> None:
        """``settings``: of the server, such as ``wal_level="logical"``."""
        self._settings = settings
        directory = Path(tempfile.mkdtemp(prefix="moldau-postgres-"))
        self._data = directory / "data"
        self._socket = directory / "socket"
        self._log = directory / "postgres.log"
        self._directory = directory
        self._databases: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        """A SQLAlchemy address; the database is created when it is first asked for."""
        if database not in self._databases:
            self._run("createdb", "-h", str(self._socket), database)
            self._databases.add(database)
        return f"postgresql+psycopg://{self._user()}@/{database}?host={self._socket}"

    def start(self) -> Self:
        self._socket.mkdir(parents=True)
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root, and its user must get to the directory.
            user = pwd.getpwnam(self._user())
            for path in (self._directory, self._socket):
                os.chown(path, user.pw_uid, user.pw_gid)
        # Whatever the language of the machine is.
        language = ("--locale=C", "--encoding=UTF8")
        self._run("initdb", "-D", str(self._data), "-A", "trust", "--no-sync", *language)
        self._launch()
        return self

    def restart(self) -> None:
        """Drop every connection, as an administrator would."""
        self.stop()
        self._launch()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)  # "fast" shutdown
            process.wait(120)

    def _launch(self) -> None:
        options = ["-k", str(self._socket), "-c", "listen_addresses=", "-c", "fsync=off"]
        for name, value in self._settings.items():
            options += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [_find("postgres"), "-D", str(self._data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **self._as_user(),
            )
        deadline = time.monotonic() + 180
        while self._call("pg_isready", "-q", "-h", str(self._socket)).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start:\n{self._log.read_text()}")
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    @staticmethod
    def _user() -> str:
        return "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    def _as_user(self) -> dict[str, Any]:
        return {"user": self._user()} if os.geteuid() == 0 else {}

    def _call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [_find(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            check=False,
            **self._as_user(),
        )

    def _run(self, program: str, *arguments: str) -> None:
        done = self._call(program, *arguments)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout.decode()}")


def _find(program: str) -> str:
    """Debian keeps the server's programs out of PATH."""
    for place in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), reverse=True):
        return str(place)
    found = shutil.which(program)
    if found is None:
        raise RuntimeError(f"{program} of PostgreSQL is not installed")
    return found
