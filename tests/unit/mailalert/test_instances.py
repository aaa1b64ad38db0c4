"""Names by which a group knows the processes of a machine again."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from uuid import uuid4

from tests.support.waiting import eventually

from moldau.mailalert.instances import claim_instance

HOLD = """
import sys
from contextlib import ExitStack
from moldau.mailalert.instances import claim_instance

until = ExitStack()
print(claim_instance(sys.argv[1], until), flush=True)
sys.stdin.read()
"""


def test_each_process_has_its_own_and_gets_it_again_after_a_kill() -> None:
    group = uuid4().hex
    first = _process(group)
    with first, ExitStack() as until:
        assert first.stdout is not None
        held = first.stdout.readline().strip()
        assert held.endswith("-0")
        with ExitStack() as meanwhile:
            assert claim_instance(group, meanwhile) == held[:-1] + "1"
        other = claim_instance(uuid4().hex, until)
        assert other is not None
        assert other.endswith("-0")
        assert other != held
        first.kill()
        first.wait(60)
        eventually(lambda: _free(group, held))


def _free(group: str, name: str) -> bool:
    with ExitStack() as until:
        return claim_instance(group, until) == name


def _process(group: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, group],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
