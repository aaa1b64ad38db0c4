"""``moldau pipeline run`` as a process: signals end it, and all that it started."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.client.conftest import topic_factory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.processes import command_of, of_session
from tests.spark.records import produce
from tests.support.target import Target

from moldau.spark.pipeline.signals import Signals

FILE = """\
name = "copy"
[spark]
master = "local[1]"
[spark.config]
"spark.ui.enabled" = false
"spark.driver.memory" = "512m"
"spark.driver.extraJavaOptions" = "JAVA_OPTIONS"
[[sources]]
name = "records"
topic = "TOPIC"
bootstrap_servers = "SERVER"
starting_offsets = "earliest"
[[sinks]]
from = "records"
name = "files"
parquet = "rows"
"""
PATIENCE = 240.0
COMMAND = [sys.executable, "-m", "moldau.cli", "pipeline", "run", "copy.toml"]
ROWS = 20


@pytest.fixture
def place(clusters: Callable[[str], Target], tmp_path: Path) -> Path:
    """A directory with a pipeline that goes on for ever, and records for it."""
    bootstrap = clusters("moldau").bootstrap
    topic = topic_factory(bootstrap)()
    produce(bootstrap, topic, [{"value": b"%d" % number} for number in range(ROWS)])
    text = FILE.replace("TOPIC", topic).replace("SERVER", bootstrap)
    text = text.replace("JAVA_OPTIONS", JAVA_OPTIONS)
    (tmp_path / "copy.toml").write_text(text)
    return tmp_path


def wait_until(
    condition: Callable[[], object], what: str, seen: Callable[[], object] = lambda: ""
) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, (what, seen())
        time.sleep(0.05)


def test_a_process_manager_ends_it(place: Path) -> None:
    with (
        (place / "err").open("wb") as err,
        subprocess.Popen(
            [*COMMAND, "--json"],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=err,
            start_new_session=True,
        ) as child,
    ):
        assert child.stdout is not None
        first = json.loads(child.stdout.readline())
        assert (first["sink"], first["batch"], first["rows"]) == ("files", 0, ROWS)
        child.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in child.stdout]
        assert all(one["sink"] == "files" for one in rest)
        code = child.wait(PATIENCE)
        said = (place / "err").read_text()
        assert code == 0, said
    assert not said
    log = (place / "checkpoints" / "copy" / "spark.log").read_text()
    # A process of Spark's for the source may say that nobody listens to it any more; none of ours.
    assert not re.findall(r'File "[^"]*/moldau/[^"]*"', log), log
    assert "Exception" not in log
    wait_until(lambda: not of_session(child.pid), "processes are left")


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["plain", "json"])
def test_off_a_terminal_the_sentence_is_all_and_traces_are_in_a_file(
    place: Path, more: list[str]
) -> None:
    """The records are no JSON."""
    file = place / "copy.toml"
    lines = 'starting_offsets = "earliest"\nvalue_format = "json"\nvalue_schema = "a INT, b INT"'
    file.write_text(file.read_text().replace('starting_offsets = "earliest"', lines))
    done = subprocess.run(
        [*COMMAND, "--once", *more], cwd=place, capture_output=True, text=True, timeout=PATIENCE
    )
    log = Path("checkpoints") / "copy" / "spark.log"
    assert done.returncode == 1
    assert done.stderr.startswith("moldau: copy.toml:")
    assert done.stderr.endswith(f" (What Spark said is in {log}.)\n")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" in (place / log).read_text()


class Terminal:
    """A child on a terminal of its own, and what it has drawn there."""

    def __init__(self, place: Path, columns: int) -> None:
        self._master, slave = os.openpty()
        self._slave = slave
        self.resize(columns)
        self.child = subprocess.Popen(
            COMMAND,
            cwd=place,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""},
        )
        self.drawn = ""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self) -> None:
        while select.select([self._master], [], [], 0)[0]:
            self.drawn += os.read(self._master, 65536).decode(errors="replace")

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Of what is drawn."""

        def seen() -> object:
            self.read()
            return condition()

        wait_until(seen, "it is not drawn", lambda: self.drawn[-2000:])

    def wait_for(self, text: str, after: int = 0) -> None:
        self.wait_until(lambda: text in plain(self.drawn[after:]))

    def wait_for_end(self) -> None:
        def ended() -> bool:
            over = self.child.poll() is not None
            self.read()
            return over

        wait_until(ended, "no end", lambda: self.drawn[-2000:])

    def close(self) -> None:
        self.child.kill()
        self.child.wait(PATIENCE)
        os.close(self._master)
        os.close(self._slave)


def plain(drawn: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


def drawn_without(drawn: str, column: str) -> bool:
    """Whether the table has been drawn from its beginning to its next one without this column."""
    return drawn.rpartition(column)[2].count("SINK") > 1


def test_a_person_watches_it_and_ends_it(place: Path) -> None:
    terminal = Terminal(place, 120)
    try:
        terminal.wait_for("starting Spark")
        terminal.wait_for(f" {ROWS} ")
        assert "WATERMARK" in terminal.drawn
        narrow = len(terminal.drawn)
        terminal.resize(50)
        # From one drawing to the next; what is being drawn meanwhile is as wide as before.
        terminal.wait_until(lambda: drawn_without(terminal.drawn[narrow:], "WATERMARK"))
        # The terminal is not the one that controls the child, which would send these two.
        terminal.child.send_signal(signal.SIGWINCH)
        terminal.wait_until(lambda: "\x1b[2J" in terminal.drawn[narrow:])
        cleared = terminal.drawn.index("\x1b[2J", narrow)
        terminal.wait_for("\n files", after=cleared)
        os.killpg(terminal.child.pid, signal.SIGINT)
        terminal.wait_for_end()
        assert terminal.child.returncode == 0, terminal.drawn[-4000:]
        last = plain(terminal.drawn[cleared:])
        assert max(map(len, re.split(r"[\r\n]+", last))) <= 50
        assert "WATERMARK" not in last
        assert "✓ pipeline copy · ended" in last
        # Nobody else has written there, and the cursor is back.
        assert "WARN" not in terminal.drawn
        assert "Exception" not in terminal.drawn
        assert terminal.drawn.rindex("\x1b[?25h") > terminal.drawn.rindex("\x1b[?25l")
        assert "log4j" in (place / "checkpoints" / "copy" / "spark.log").read_text()
    finally:
        terminal.close()
    wait_until(lambda: not of_session(terminal.child.pid), "processes are left")


def test_spark_that_hangs_is_not_waited_for_twice(place: Path) -> None:
    terminal = Terminal(place, 80)

    def spark() -> int | None:
        """Not the process that finds out how to start it, and ends."""
        for one in of_session(terminal.child.pid):
            command = command_of(one.pid)
            if one.name == "java" and "SparkSubmit" in command and "launcher.Main" not in command:
                return one.pid
        return None

    def stop() -> bool:
        if (pid := spark()) is not None:
            os.kill(pid, signal.SIGSTOP)
        return pid is not None

    try:
        wait_until(stop, "no JVM is started")
        terminal.child.send_signal(signal.SIGTERM)
        terminal.wait_for("· stopping (Ctrl-C again does not wait)")
        assert terminal.child.poll() is None
        terminal.child.send_signal(signal.SIGTERM)
        terminal.wait_for_end()
        assert terminal.child.returncode == 128 + signal.SIGTERM, terminal.drawn
        assert "Traceback" not in terminal.drawn
        assert terminal.drawn.rindex("\x1b[?25h") > terminal.drawn.rindex("\x1b[?25l")
    finally:
        terminal.close()
    wait_until(lambda: not of_session(terminal.child.pid), "processes are left")


def test_a_signal_interrupts_what_has_no_queries_yet() -> None:
    """Batch pipelines write before there is a run to stop."""
    told: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with Signals(told.append) as signals:
        signals.interrupting = True
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert signals.received == signal.SIGINT
    assert told == ["stopping"]
    assert signal.getsignal(signal.SIGINT) is before
