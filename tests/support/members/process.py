"""A group member in a process of its own, so that it can be killed, frozen and outlived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAIT_S = 150.0
"""Longer than any session: also of a member that dies before it has heard of a shorter one."""
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Ownership:
    """A member's time with a partition; the end is open while it lasts."""

    partition: int
    since_ms: int
    until_ms: float = float("inf")


class Member:
    """Reads the events of one member process as they come."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
            )
        self._changed = threading.Condition()
        self.events: list[dict[str, Any]] = []
        self.records: list[tuple[int, int]] = []
        self.committed: dict[int, int] = {}
        self.owned: set[int] = set()
        self.history: list[Ownership] = []
        self.errors: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
        """Until something that this member's events decide has come true."""
        with self._changed:
            if not self._changed.wait_for(condition, timeout_s):
                raise AssertionError(
                    f"did not happen in {timeout_s} s; this member:\n{self.story()}"
                )

    def leave(self) -> None:
        """Ends the member as its client's users do (SIGTERM, close)."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(WAIT_S)
        self._end(time.time_ns() // 1_000_000)
        assert code in (0, 143), f"ended with {code}:\n{self.story()}"

    def kill(self) -> None:
        """SIGKILL: the broker hears nothing but the closed connection."""
        now_ms = time.time_ns() // 1_000_000
        if self.running:
            self._process.kill()
        self._process.wait(WAIT_S)
        self._end(now_ms)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def get_busy(self) -> None:
        """The member polls no more, but lives (confluent-kafka only)."""
        self._process.send_signal(signal.SIGUSR1)

    def get_ready(self) -> None:
        self._process.send_signal(signal.SIGUSR2)

    def story(self) -> str:
        shown = [json.dumps(e) for e in self.events if e["name"] != "record_data"][-30:]
        code = self._process.poll()
        state = "running" if code is None else f"ended with {code}"
        records = f"{state}, {len(self.records)} records, owns {sorted(self.owned)}"
        return "\n".join([records, *shown, self._log.read_text(errors="replace")[-1500:]])

    def _end(self, now_ms: int) -> None:
        self._reader.join(WAIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        for ownership in self.history:
            ownership.until_ms = min(ownership.until_ms, max(now_ms, ownership.since_ms))
        self.owned.clear()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                with self._changed:
                    self._note(json.loads(line))
                    self._changed.notify_all()

    def _note(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        name = event["name"]
        if name == "record_data":
            self.records.append((event["partition"], event["offset"]))
        elif name == "offsets_committed" and event["success"]:
            self.committed.update({row["partition"]: row["offset"] for row in event["offsets"]})
        elif name == "partitions_assigned":
            for row in event["partitions"]:
                self.owned.add(row["partition"])
                self.history.append(Ownership(row["partition"], event["timestamp"]))
        elif name == "partitions_revoked":
            gone = {row["partition"] for row in event["partitions"]}
            self.owned -= gone
            for ownership in self.history:
                if ownership.partition in gone:
                    ownership.until_ms = min(ownership.until_ms, event["timestamp"])
        elif name in ("error", "failed", "commit_failed"):
            self.errors.append(str(event.get("error", name)))
