"""Handlers and groups are imported while a broker serves: by its loop, and by a thread."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import builtins, sys, threading

loop_is_inside, thread_is_inside = threading.Event(), threading.Event()
WAIT_S = 2.0  # that long it takes if one waits for the other, as it should

# The loop is in the middle of the package when the thread begins with another part of it.
def import_slowly(name, *more):
    if name == "moldau.groups.consumer.groups" and not loop_is_inside.is_set():
        loop_is_inside.set()
        thread_is_inside.wait(WAIT_S)
    elif name == "moldau.groups.consumer.member" and threading.current_thread() is thread:
        thread_is_inside.set()
    return real_import(name, *more)

from moldau.broker.group_coordinator import late_import
from moldau.broker.routes import Route
from moldau.wire.api import ApiKey

real_import, builtins.__import__ = builtins.__import__, import_slowly
failures = []

def load():
    loop_is_inside.wait()
    try:
        Route(ApiKey.CONSUMER_GROUP_DESCRIBE)
    except BaseException as error:
        failures.append(error)

thread = threading.Thread(target=load)
thread.start()
try:
    late_import("moldau.groups.shard")
except BaseException as error:
    failures.append(error)
thread.join()
assert loop_is_inside.is_set()
sys.exit("; ".join(map(repr, failures)) or None)
"""


def test_a_broker_without_others_imports_nothing_for_them() -> None:
    program = """
import sys
import moldau.broker.app
names = "cluster_parts forwarding peers peer_authentication private_apis remote_link".split()
print([name for name in names if f"moldau.broker.{name}" in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "[]\n"


def test_two_threads_that_import_one_package_do_not_get_in_each_others_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
