"""Pipes, signals and broker processes: what only shows in real child processes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.process import free_port

from moldau.testing.broker import BrokerStartError, MoldauProcess

MOLDAU = [sys.executable, "-m", "moldau.cli"]


@pytest.fixture
def topic(moldau_topic: str) -> str:
    return moldau_topic


def test_lines_go_in_and_come_out_unchanged(moldau: CommandLine, topic: str) -> None:
    lines = b"".join(b"line %d \xff\xfe\n" % number for number in range(20_000))
    moldau.pipe(lines, "produce", topic)
    assert moldau.pipe(b"", "consume", topic) == lines


def test_the_last_line_needs_no_newline(moldau: CommandLine, topic: str) -> None:
    moldau.pipe(b"a\n\nc", "produce", topic)
    assert moldau.pipe(b"", "consume", topic) == b"a\n\nc\n"


def test_keys_nulls_and_delimiters(moldau: CommandLine, topic: str) -> None:
    moldau.pipe(
        b"a:1|b:NULL|c:", "produce", topic, "-K", ":", "--null-value", "NULL", "--delimiter", "|"
    )
    out = moldau.pipe(b"", "consume", topic, "-k", "--separator", "=", "--null-value", "(null)")
    assert out == b"a=1\nb=(null)\nc=\n"


def test_a_whole_file_is_one_value(moldau: CommandLine, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"one\ntwo\n\x00")
    moldau.pipe(b"", "produce", topic, "--file", str(file), "--whole")
    assert moldau.pipe(b"", "consume", topic, "--format", "hex") == (
        file.read_bytes().hex().encode() + b"\n"
    )


def test_json_is_carried_from_topic_to_topic(
    moldau: CommandLine, topic: str, moldau_broker: MoldauProcess
) -> None:
    copy = moldau_broker.create_topic(f"copy-{uuid.uuid4().hex[:8]}")
    moldau.pipe(b"k1:hello\nk2:\xff\n", "produce", topic, "-K", ":", "-H", "from=here")
    printed = moldau.pipe(b"", "consume", topic, "--json")
    assert [json.loads(line)["offset"] for line in printed.splitlines()] == [0, 1]
    moldau.pipe(printed, "produce", copy, "--format", "json")
    assert moldau.pipe(b"", "consume", copy, "--json") == printed.replace(
        topic.encode(), copy.encode()
    )


def test_a_bad_line_is_named_and_what_came_before_is_stored(
    moldau: CommandLine, topic: str
) -> None:
    with moldau.start("produce", topic, "--format", "hex") as child:
        _, err = child.communicate(b"00\nff\nxyz\n", timeout=150)
    assert child.returncode == 1
    assert err == b"moldau: stdin: line 3: not hexadecimal: 'xyz'.\n"


def test_a_closed_pipe_is_no_error(moldau: CommandLine, topic: str) -> None:
    moldau.pipe(b"".join(b"%0100d\n" % number for number in range(50_000)), "produce", topic)
    with moldau.start("consume", topic) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert int(child.stdout.readline()) == 0
        child.stdout.close()
        assert child.wait(timeout=150) == 0
        assert child.stderr.read() == b""


def test_follow_prints_what_comes_and_ends_quietly_with_ctrl_c(
    moldau: CommandLine, topic: str
) -> None:
    moldau.pipe(b"before\n", "produce", topic)
    with moldau.start("consume", topic, "-f", "-o", "-1") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"before\n"
        moldau.pipe(b"after\n", "produce", topic)
        assert child.stdout.readline() == b"after\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=150) == 130
        assert child.stdout.read() == b""
        assert child.stderr.read() == b""


def test_typed_lines_are_sent_one_by_one(moldau: CommandLine, topic: str) -> None:
    with (
        moldau.start("produce", topic, "--json") as producing,
        moldau.start("consume", topic, "-f", "--from-beginning") as consuming,
    ):
        assert producing.stdin is not None
        assert consuming.stdout is not None
        for line in (b"one\n", b"two\n"):
            producing.stdin.write(line)
            producing.stdin.flush()
            assert consuming.stdout.readline() == line
        producing.send_signal(signal.SIGINT)
        assert producing.wait(timeout=150) == 130
        consuming.kill()


def test_following_survives_a_restart_of_the_broker(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with MoldauProcess(tmp_path, port=free_port()) as broker:
        moldau = CommandLine(broker.bootstrap_servers, capfd)
        broker.create_topic("t")
        moldau.pipe(b"before\n", "produce", "t")
        with moldau.start("consume", "t", "-f", "--from-beginning") as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"before\n"
            broker.kill()
            broker.start()
            moldau.pipe(b"after\n", "produce", "t")
            assert child.stdout.readline() == b"after\n"
            child.kill()


def test_up_says_where_it_is_and_what_to_try(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with subprocess.Popen(
        [*MOLDAU, "up", "--port", "0", "--data-dir", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as child:
        assert child.stdout is not None
        ready = child.stdout.readline().decode()
        address = ready.removeprefix("moldau ready: node 1 listening on ").strip()
        host, port = address.split(":")
        socket.create_connection((host, int(port))).close()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=150)
    assert child.returncode == 0
    assert out == b""
    talk = err.decode()
    assert address in talk
    assert str(data) in talk
    for command in ("topic create greetings", "produce greetings", "consume greetings"):
        assert f"moldau {command} -b {address}" in talk
    assert data.is_dir()


def test_broker_reads_server_properties_and_ends_cleanly(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"node.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path / 'wrong'}\n"
    )
    right = tmp_path / "right"
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "moldau.cli",
            "broker",
            "--config",
            str(properties),
            "--override",
            f"log.dirs={right}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith(b"moldau ready: node 7 listening on 127.0.0.1:")
        child.terminate()
        assert child.wait(timeout=150) == 0
    assert right.is_dir()
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--config", "nowhere.properties"], 1, "There is no file nowhere.properties."),
        (["--override", "nonsense"], 2, "--override: 'nonsense' is not of the form name=value."),
        (["--override", "num.partitions=many"], 1, "num.partitions"),
        (["--log-level", "loud"], 2, "--log-level is 'loud'"),
    ],
)
def test_a_broker_that_cannot_start_says_why(
    args: list[str], code: int, said: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*MOLDAU, "broker", *args],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=150,
    )
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.startswith("moldau: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_port_in_use_is_said_in_one_sentence(
    tmp_path: Path, moldau_broker: MoldauProcess
) -> None:
    done = subprocess.run(
        [*MOLDAU, "up", "--port", str(moldau_broker.port), "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 1
    assert f"127.0.0.1:{moldau_broker.port}" in done.stderr
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_process_that_fails_shows_its_log(tmp_path: Path) -> None:
    broker = MoldauProcess(tmp_path, overrides={"num.partitions": "many"})
    with pytest.raises(BrokerStartError, match=r"(?s)ended with exit code 1.*num\.partitions"):
        broker.start()
    assert not broker.alive


def test_a_broker_process_keeps_port_and_data_over_restarts(tmp_path: Path) -> None:
    with MoldauProcess(tmp_path, port=free_port()) as broker:
        port, pid = broker.port, broker.pid
        broker.create_topic("kept", partitions=2, retention_ms=60_000)
        assert broker.terminate() == 0
        assert not broker.alive
        broker.restart()
        assert (broker.port, broker.pid != pid) == (port, True)
        assert broker.kill() == -signal.SIGKILL
        broker.restart()
        with pytest.raises(Exception, match="already exists"):
            broker.create_topic("kept")
    assert not broker.alive


def test_a_broker_process_ends_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from moldau.testing.broker import MoldauProcess\n"
        "broker = MoldauProcess(sys.argv[1]).start()\n"
        "print(broker.port, flush=True)\n"
        "os._exit(9)\n"  # no clean-up of any kind
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        check=False,
        timeout=150,
    )
    port = int(done.stdout)
    # Its log says so when it is done; the port is free again after that.
    restarted = MoldauProcess(tmp_path, port=port)
    for _ in range(50):
        try:
            restarted.start()
            break
        except BrokerStartError:
            continue
    assert restarted.terminate() == 0
