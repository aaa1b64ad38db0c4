"""Every command of docs/cli.md works as it is written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from moldau.testing.broker import MoldauProcess

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()


def test_the_commands_in_the_documentation_run_in_order(tmp_path: Path) -> None:
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) > 20
    script = "\n".join(["set -euo pipefail", *commands])
    with MoldauProcess(tmp_path / "broker") as broker:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-xc", script],
            env={**os.environ, "MOLDAU_BOOTSTRAP": broker.bootstrap_servers, "PATH": path},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=570,
        )
    assert done.returncode == 0, done.stderr
    assert "moldau:" not in done.stderr


def test_the_python_examples_work(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 2
    space: dict[str, object] = {}
    exec(compile(examples[1], "docs/cli.md", "exec"), space)
    run = space["test_survives_a_crash"]
    assert callable(run)
    run(tmp_path)
