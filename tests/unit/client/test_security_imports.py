"""Clients without TLS and SASL do not pay for it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from moldau.client.cluster import Cluster
from moldau.client.settings import CommonSettings
Cluster(CommonSettings(bootstrap_servers="localhost"))
costly = "moldau.security", "moldau.client.security", "hashlib"
print(*(name for name in sys.modules if name.startswith(costly)))
"""


def test_a_plain_client_imports_nothing_of_it() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert said.stdout.split() == []
