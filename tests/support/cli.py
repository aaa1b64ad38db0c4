"""Runs ``moldau`` commands for tests, in this process or as a child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from moldau.cli import main


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


class CommandLine:
    """``moldau`` talking to one broker; calls must succeed unless ``code`` says otherwise."""

    def __init__(self, bootstrap: str, capture: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = bootstrap
        self._capture = capture

    def __call__(self, *args: str, code: int = 0) -> Result:
        """In this process: fast, but without stdin."""
        self._capture.readouterr()
        returned = main(args)
        captured = self._capture.readouterr()
        result = Result(returned, captured.out, captured.err)
        assert result.code == code, result
        return result

    def start(self, *args: str, **options: Any) -> subprocess.Popen[bytes]:
        """As a child with pipes, for streams and signals."""
        env = {**os.environ, "MOLDAU_BOOTSTRAP": self.bootstrap}
        return subprocess.Popen(
            [sys.executable, "-m", "moldau.cli", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            **options,
        )

    def pipe(self, stdin: bytes, *args: str, code: int = 0) -> bytes:
        """A child that gets ``stdin``; its stdout."""
        with self.start(*args) as child:
            out, err = child.communicate(stdin, timeout=150)
        assert child.returncode == code, err.decode()
        return out
