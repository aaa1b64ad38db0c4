"""``moldau coordination serve`` as its users know it: a shell, a crash, a torn journal, errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from tests.support.coordination import CoordinationProcess
from tests.support.java import ROOT
from tests.support.process import ServerProcess, free_port
from tests.support.zookeeper import JARS

PATIENCE_S = 90.0


@pytest.fixture
def coordination(tmp_path: Path) -> Iterator[CoordinationProcess]:
    with CoordinationProcess(tmp_path / "coordination") as running:
        yield running


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that is expected to fail."""
    return subprocess.run(
        [sys.executable, "-m", "moldau.cli", "coordination", "serve", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_zookeepers_own_shell_works(coordination: CoordinationProcess) -> None:
    parsers = sorted(Path(sys.prefix).glob("lib/*/site-packages/pyspark/jars/commons-cli-*.jar"))
    if not (JARS / ".complete").exists() or not parsers:
        pytest.skip("ZooKeeper's shell is not here: run `make zookeeper`")
    commands = """
        addauth digest user:password
        create /a hello
        create -e -s /a/e- x
        set /a hi
        get -s /a
        ls /a
        getAcl /a
        sync /a
        deleteall /a
        ls /
        quit
    """
    done = subprocess.run(
        [
            "java",
            "-cp",
            f"{parsers[0]}:{JARS}/*",
            "org.apache.zookeeper.ZooKeeperMain",
            "-server",
            coordination.address,
        ],
        input="\n".join(line.strip() for line in commands.splitlines() if line.strip()) + "\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        cwd=ROOT,
    )
    said = done.stdout.splitlines()
    for line in ("Created /a", "Created /a/e-0000000000", "hi", "[e-0000000000]", "Sync is OK"):
        assert line in said, done.stdout
    assert said.index("dataVersion = 1") > said.index("hi")
    assert [line for line in said if line == "[]"], done.stdout


@pytest.mark.parametrize("torn", [False, True])
def test_sessions_go_on_after_kill_9(coordination: CoordinationProcess, torn: bool) -> None:
    client = KazooClient(coordination.address, timeout=60)
    client.start(PATIENCE_S)
    client.create("/kept", b"x")
    client.create("/e", ephemeral=True)
    session_id = client.client_id[0]
    coordination.kill()
    if torn:
        journal = coordination.data_dir / "coordination.journal"
        good = journal.read_bytes().rstrip(b"\0")
        journal.write_bytes(good + good[-40:-7])
    coordination.start()
    owner = client.retry(client.get, "/e")[1].ephemeralOwner
    assert owner == session_id == client.client_id[0]
    assert client.get("/kept")[0] == b"x"
    client.create("/later")
    client.stop()
    client.close()
    assert coordination.stop() == 0
    coordination.start()
    after = KazooClient(coordination.address)
    after.start(PATIENCE_S)
    assert after.exists("/e") is None
    assert after.exists("/later") is not None
    after.stop()
    after.close()


def test_a_clean_stop_ends_no_session(coordination: CoordinationProcess) -> None:
    client = KazooClient(coordination.address, timeout=60)
    client.start(PATIENCE_S)
    client.create("/e", ephemeral=True)
    assert coordination.stop() == 0
    coordination.start()
    assert client.retry(client.get, "/e")[1].ephemeralOwner == client.client_id[0]
    client.stop()
    client.close()


def test_a_server_that_stood_still_ends_no_session(coordination: CoordinationProcess) -> None:
    client = KazooClient(coordination.address, timeout=1.0)
    client.start(PATIENCE_S)
    client.create("/e", ephemeral=True)
    session_id = client.client_id[0]
    assert coordination.process is not None
    os.kill(coordination.process.pid, signal.SIGSTOP)
    time.sleep(3.0)  # three times as long as the session lasts
    os.kill(coordination.process.pid, signal.SIGCONT)
    assert client.retry(client.get, "/e")[1].ephemeralOwner == session_id
    client.stop()
    client.close()


def test_what_cannot_be_had_is_said_in_a_sentence(
    coordination: CoordinationProcess, tmp_path: Path
) -> None:
    taken = serve("--listen", coordination.address, "--data-dir", str(tmp_path / "other"))
    assert taken.returncode == 1
    assert taken.stderr == (
        f"moldau: cannot listen on {coordination.address}: Address already in use.\n"
    )
    locked = serve("--listen", "127.0.0.1:0", "--data-dir", str(coordination.data_dir))
    assert locked.returncode == 1
    assert "is in use by another process" in locked.stderr
    malformed = serve("--listen", "nowhere")
    assert malformed.returncode == 2
    assert "HOST:PORT" in malformed.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("meta.properties", "is the directory of a broker"),
        ("version-2", "is the directory of an Apache ZooKeeper"),
        ("cluster.secret", "is the directory of a cluster"),
        ("thesis.tex", "is not empty, and not a coordination store"),
    ],
)
def test_a_directory_of_something_else_is_left_alone(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).touch()
    refused = serve("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    assert refused.returncode == 2
    assert said in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("listen", [":{}", "0.0.0.0:{}", "127.0.0.1:{}"])
def test_who_serves_other_machines_is_told_what_that_means(tmp_path: Path, listen: str) -> None:
    command = [sys.executable, "-m", "moldau.cli", "coordination", "serve"]
    command += ["--listen", listen.format(0), "--data-dir", str(tmp_path / "data")]
    process = ServerProcess(command, tmp_path / "log")
    process.wait_for("moldau ready: ")
    process.stop()
    is_open = not listen.startswith("127.")
    assert ("whoever reaches it may read and change everything" in process.text()) is is_open


def test_a_broker_without_its_store_says_so_and_ends(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    settings = {
        "zookeeper.connect": nowhere,
        "zookeeper.connection.timeout.ms": "500",
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }
    command = [sys.executable, "-m", "moldau.cli", "broker"]
    for name, value in settings.items():
        command += ["--override", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert done.stderr == (
        f"moldau: zookeeper.connect: no ZooKeeper answers at {nowhere} within 500 ms.\n"
    )
