"""Names with line breaks and escape sequences, sent to a real broker by anybody."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.wire import WireClient

from moldau.client.admin import Admin
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.testing.broker import MoldauProcess
from moldau.wire.api import ApiKey

FORGED = "2026-11-15 00:00:00,000 ERROR   moldau.broker.app: forged"
EVIL = f"\x1b]0;title\x07\x1b[31mevil[/bold][link=http://x]\n{FORGED}"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MoldauProcess]:
    with MoldauProcess(tmp_path, overrides={"offsets.topic.num.partitions": 1}) as running:
        running.create_topic("t")
        yield running


async def test_no_request_writes_a_line_of_the_log(broker: MoldauProcess) -> None:
    async with await WireClient.connect(broker.bootstrap_servers) as client:
        await client.call(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            dirs=[{"path": f"/nope{EVIL}", "topics": [{"name": "t", "partitions": [0]}]}],
        )
    [line] = [line for line in broker.logs().splitlines() if "forged" in line]
    assert r"is not moved to /nope\x1b]0;title" in line


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--json"], ["describe", EVIL], ["describe", f"no{EVIL}"]],
    ids=["list", "json", "describe", "unknown"],
)
def test_groups_are_shown_and_nothing_else_happens(
    broker: MoldauProcess, arguments: list[str]
) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_group_offsets(EVIL, {TopicPartition("t", 0): OffsetAndMetadata(0)})
    command = [sys.executable, "-m", "moldau.cli", "group", *arguments]
    command += ["-b", broker.bootstrap_servers]
    piped = subprocess.run(command, capture_output=True, check=False)
    for said in (piped.stdout + piped.stderr, _on_terminal(command)):
        assert b"forged" in said
        assert not any(line.startswith(b"2026") for line in said.splitlines())
        assert not [trick for trick in (b"\x1b]", b"\x1b[31mevil", b"\x07") if trick in said]


def _on_terminal(command: list[str]) -> bytes:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its):
        os.close(its)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while data := os.read(ours, 4096):
                shown += data
        os.close(ours)
    return shown
