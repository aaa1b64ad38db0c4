"""Processes that are kept running, in order, and all gone in the end."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from moldau.cli.cluster_lock import locked_cluster
from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.local_cluster import LocalCluster, prepare, refuse_cluster, refuse_taken_ports
from moldau.cli.supervisor import DELAYS, LASTED_S, Restarts
from moldau.config.replicated import replication_settings

TIMEOUT_S = 60.0


def test_restarts_in_a_row_take_longer_and_longer() -> None:
    restarts = Restarts()
    delays = [restarts.delay_after(1.0) for _ in range(len(DELAYS) + 2)]
    assert delays == [*DELAYS, DELAYS[-1], DELAYS[-1]]
    assert restarts.delay_after(LASTED_S) == DELAYS[0]
    assert restarts.delay_after(1.0) == DELAYS[1]


@pytest.mark.parametrize(
    ("brokers", "copies", "needed"), [(2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_topics_have_as_many_copies_as_there_can_be(brokers: int, copies: str, needed: str) -> None:
    settings = replication_settings(brokers)
    assert settings["offsets.topic.replication.factor"] == copies
    assert settings["min.insync.replicas"] == needed


def test_a_cluster_has_neighbouring_ports_and_a_secret_that_only_its_owner_reads(
    tmp_path: Path,
) -> None:
    cluster = prepare("127.0.0.1", 9092, 3, tmp_path / "data")
    assert cluster.bootstrap_servers == ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]
    assert cluster.coordination_address == "127.0.0.1:9091"
    secret = tmp_path / "data" / "cluster.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    before = secret.read_text()
    assert len(before) > 40
    prepare("127.0.0.1", 9092, 3, tmp_path / "data")
    assert secret.read_text() == before


def test_free_ports_are_different(tmp_path: Path) -> None:
    cluster = prepare("127.0.0.1", 0, 3, tmp_path)
    assert len({cluster.coordination_port, *cluster.ports}) == 4


@pytest.mark.parametrize(("port", "brokers"), [(65535, 2), (1, 2), (9092, 0), (9092, 21)])
def test_what_cannot_be_is_refused(port: int, brokers: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        prepare("127.0.0.1", port, brokers, tmp_path)


def test_a_directory_belongs_to_a_broker_or_to_a_cluster(tmp_path: Path) -> None:
    refuse_cluster(tmp_path)
    (tmp_path / "meta.properties").touch()
    with pytest.raises(UsageError, match="data of a single broker"):
        prepare("127.0.0.1", 9092, 3, tmp_path)
    for name in ("coordination", "1", "2"):
        (tmp_path / "cluster" / name).mkdir(parents=True)
    prepare("127.0.0.1", 9092, 3, tmp_path / "cluster")
    (tmp_path / "cluster" / "3").mkdir()
    with pytest.raises(UsageError, match="data of 3 brokers"):
        prepare("127.0.0.1", 9092, 2, tmp_path / "cluster")
    (tmp_path / "cluster" / "3").rmdir()
    with pytest.raises(UsageError, match="moldau up --brokers 2"):
        refuse_cluster(tmp_path / "cluster")


def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cluster = LocalCluster("127.0.0.1", port, (port + 1, port + 2), tmp_path)
        with pytest.raises(CommandError, match=f"cannot listen on 127.0.0.1:{port}: Address"):
            refuse_taken_ports(cluster)


class Supervised:
    """A supervisor of small programs that write what happens to them to a file."""

    CHILD = """
        import os, signal, sys, threading, time
        name, events = sys.argv[1:3]
        def note(what):
            with open(events, "a") as file:
                file.write(f"{name} {what} {os.getpid()}\\n")
        def end(*_):
            note("ended")
            os._exit(0)
        signal.signal(signal.SIGTERM, end)
        def watch():
            os.read(int(os.environ["MOLDAU_LIFELINE_FD"]), 1)
            os.kill(os.getpid(), signal.SIGTERM)
        threading.Thread(target=watch, daemon=True).start()
        if name == "broken":
            sys.exit("moldau: no room")
        note("began")
        print("moldau ready: ", flush=True)
        while True:
            time.sleep(0.05)
    """
    MAIN = """
        import asyncio, sys
        from moldau.cli.main import sentence_for
        from moldau.cli.supervisor import Program, Supervisor
        child, events, *stages = sys.argv[1:]
        def program(name):
            return Program(name, (sys.executable, "-c", child, name, events))
        async def main():
            chosen = [[program(name) for name in stage.split(",")] for stage in stages]
            await Supervisor(chosen).run(lambda: print("all ready", flush=True))
        try:
            asyncio.run(main())
        except Exception as error:
            sys.exit(sentence_for(error))
    """

    def __init__(self, directory: Path, *stages: str) -> None:
        self._events = directory / "events"
        self._events.touch()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(self.MAIN),
                textwrap.dedent(self.CHILD),
                str(self._events),
                *stages,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "all ready\n"

    def events(self, what: str) -> list[str]:
        """Whom it has happened to, in order."""
        lines = [line.split() for line in self._events.read_text().splitlines()]
        return [name for name, event, _ in lines if event == what]

    def pid(self, name: str) -> int:
        """Of its latest life."""
        lines = [line.split() for line in self._events.read_text().splitlines()]
        return [int(pid) for one, event, pid in lines if one == name and event == "began"][-1]

    def wait(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, said


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_what_dies_is_started_again_and_all_end_in_order(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path, "store", "one,two")
    supervised.ready()
    assert supervised.events("began")[0] == "store"
    os.kill(supervised.pid("one"), signal.SIGKILL)
    eventually(lambda: supervised.events("began").count("one") == 2)
    os.kill(supervised.pid("store"), signal.SIGKILL)
    eventually(lambda: supervised.events("began").count("store") == 2)
    supervised.process.send_signal(signal.SIGINT)
    code, said = supervised.wait()
    assert code == 0, said
    assert "one was ended by SIGKILL; it is started again in 0.2 s." in said
    ended = supervised.events("ended")
    assert sorted(ended) == ["one", "store", "two"]
    assert ended[-1] == "store"


def test_who_cannot_start_ends_everything_with_a_sentence(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path, "store", "broken,two")
    code, said = supervised.wait()
    assert code == 1
    assert "broken does not start: no room" in said
    assert "store" in supervised.events("ended")
    assert not is_there(supervised.pid("store"))


def test_a_supervisor_that_is_killed_leaves_nobody_behind(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path, "store", "one,two")
    supervised.ready()
    pids = [supervised.pid(name) for name in ("store", "one", "two")]
    supervised.process.kill()
    supervised.wait()
    eventually(lambda: not any(is_there(pid) for pid in pids))
    assert supervised.events("ended")[-1] == "store"  # the others need it until they have ended


def test_a_directory_has_one_supervisor_and_no_other_before_its_children_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        import os, subprocess, sys, time
        from pathlib import Path
        from moldau.cli.cluster_lock import locked_cluster
        with locked_cluster(Path(sys.argv[1])) as held:
            child = [sys.executable, "-c", "import sys; sys.stdin.read()"]
            subprocess.Popen(child, stdin=sys.stdin, stdout=subprocess.DEVNULL, pass_fds=(held,))
            print("locked", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def enter(directory: Path) -> None:
        with locked_cluster(directory):
            pass

    assert process.stdout.readline() == "locked\n"
    with pytest.raises(CommandError, match="another 'moldau up --brokers' runs there"):
        enter(tmp_path)
    process.kill()
    process.wait()
    monkeypatch.setattr("moldau.cli.cluster_lock.WAITS_S", 0.1)
    with pytest.raises(CommandError, match="do not end"):
        enter(tmp_path)
    process.stdin.close()
    process.stdout.close()
    monkeypatch.setattr("moldau.cli.cluster_lock.WAITS_S", TIMEOUT_S)
    enter(tmp_path)
