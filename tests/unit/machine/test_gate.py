"""What the machine gives comes through ``moldau.machine``: the linter refuses whoever asks for it
himself, and this module what the linter cannot see.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "moldau"

FREE = ("machine/real/", "cli/", "mailalert/", "spark/", "testing/")
"""The real machine, and programs that run on no other."""

NAMED = {
    "client/blocking.py",
    "client/consumer/consumer.py",
    "client/large/claim_check.py",
    "client/listener/handlers.py",
    "client/listener/listener.py",
    "client/user_threads.py",
    "config/options/ignored.py",
    "config/values/server_properties.py",
    "coordination/zookeeper.py",
    "log/tools/files.py",
    "security/oidc.py",
    "security/stores.py",
    "security/tls.py",
    "source.py",
}
"""The modules that ask for themselves; pyproject.toml says why."""

METHODS_OF_LOOPS = {
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "run_in_executor",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_sendall",
    "sock_sendfile",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
}


def lint(*arguments: str, source: str | None = None) -> list[dict[str, str]]:
    """Returns what the project's linter finds."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=json"]
    done = subprocess.run(
        [*command, *arguments],
        input=source,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=150,
    )
    assert done.returncode in (0, 1), done.stderr
    findings: list[dict[str, str]] = json.loads(done.stdout)
    return findings


def codes(module: str, source: str) -> set[str]:
    """Returns the rules that this source breaks as a module of the package."""
    return {
        finding["code"]
        for finding in lint(f"--stdin-filename=src/moldau/{module}", "-", source=source)
    }


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import threading",
        "import subprocess",
        "import socket",
        "from os import environ",
        "from pathlib import Path",
        "from concurrent.futures import ThreadPoolExecutor",
        "import random\nrandom.random()",
        "from random import SystemRandom",
        "import uuid\nuuid.uuid4()",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "import asyncio\nasyncio.to_thread(print)",
        "from asyncio import open_connection",
    ],
)
def test_who_asks_the_machine_himself_is_refused(source: str) -> None:
    assert "TID251" in codes("broker/planted.py", source)
    assert "TID251" not in codes("machine/real/planted.py", source)


def test_opening_files_is_refused_everywhere() -> None:
    assert "PTH123" in codes("broker/planted.py", 'open("file")')


@pytest.mark.parametrize(
    "source", ["from uuid import UUID", "from random import Random", "from pathlib import PurePath"]
)
def test_what_asks_nothing_is_allowed(source: str) -> None:
    assert "TID251" not in codes("broker/planted.py", source)


def bound(paths: Iterable[Path]) -> dict[str, Path]:
    """Returns the modules among these files that are not free, by their names in the package."""
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in paths}
    return {name: path for name, path in modules.items() if not name.startswith(FREE)}


def test_every_module_that_is_named_needs_to_be() -> None:
    findings = lint("--select=TID251", "--config=lint.per-file-ignores={}", "src/moldau")
    assert bound(Path(finding["filename"]) for finding in findings).keys() == NAMED


def test_only_the_real_machine_uses_what_event_loops_have_of_it() -> None:
    modules = bound(PACKAGE.rglob("*.py"))
    assert len(modules) > 400
    assert [
        f"{name}:{call.lineno}: {call.func.attr}"
        for name, path in modules.items()
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in METHODS_OF_LOOPS
        and ast.unparse(call.func.value) != "super()"  # of a class that is no loop
    ] == []
