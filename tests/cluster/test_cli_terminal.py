"""What a person sees: tables, colours, questions and progress, all of it only on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

from tests.support.cli import CommandLine

from moldau.testing.broker import MoldauProcess


def on_terminal(
    broker: MoldauProcess, *args: str, typed: bytes = b"", columns: int = 120
) -> tuple[int, str]:
    """Exit code and everything shown, of a command that has a terminal for all three streams."""
    ours, theirs = pty.openpty()
    env = {
        **os.environ,
        "MOLDAU_BOOTSTRAP": broker.bootstrap_servers,
        "TERM": "xterm-256color",
        "COLUMNS": str(columns),
    }
    for name in ("NO_COLOR", "CI", "FORCE_COLOR"):
        env.pop(name, None)
    with subprocess.Popen(
        [sys.executable, "-m", "moldau.cli", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
    ) as child:
        os.close(theirs)
        os.write(ours, typed)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the child closed its side
                break
            if not chunk:
                break
            shown += chunk
    os.close(ours)
    return child.returncode, shown.decode()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_tables_have_headers_on_a_terminal(moldau_broker: MoldauProcess, moldau_topic: str) -> None:
    code, shown = on_terminal(moldau_broker, "topic", "list")
    assert code == 0
    assert "\x1b[" in shown
    assert "TOPIC" in plain(shown)
    assert moldau_topic in plain(shown)
    _, described = on_terminal(moldau_broker, "topic", "describe", moldau_topic)
    assert "REPLICAS" in plain(described)
    _, cluster = on_terminal(moldau_broker, "cluster", "describe")
    assert "controller is broker 1" in plain(cluster)


def test_a_narrow_terminal_gets_whole_names(moldau_broker: MoldauProcess) -> None:
    topic = moldau_broker.create_topic(f"narrow-{'x' * 30}")
    code, shown = on_terminal(moldau_broker, "topic", "list", columns=50)
    assert code == 0
    assert topic in plain(shown)
    assert "PARTITIONS" in plain(shown)
    assert max(len(line) for line in plain(shown).splitlines()) <= 50
    _, described = on_terminal(moldau_broker, "topic", "describe", topic, columns=30)
    assert re.search(r"^LEADER +1 *$", plain(described).replace("\r", ""), re.MULTILINE)


def test_json_is_the_same_on_a_terminal(moldau_broker: MoldauProcess, moldau_topic: str) -> None:
    _, shown = on_terminal(moldau_broker, "topic", "describe", moldau_topic, "--json")
    assert "\x1b[" not in shown
    assert shown.lstrip().startswith("[")


def test_deleting_asks_first(moldau_broker: MoldauProcess, moldau: CommandLine) -> None:
    topic = moldau_broker.create_topic("precious")
    code, shown = on_terminal(moldau_broker, "topic", "delete", topic, typed=b"n\n")
    assert code == 1
    assert "Delete precious and all records?" in shown
    assert "precious" in {row[0] for row in moldau("topic", "list").rows}
    code, shown = on_terminal(moldau_broker, "topic", "delete", topic, typed=b"y\n")
    assert code == 0
    assert "Deleted topic 'precious'." in shown
    assert "precious" not in {row[0] for row in moldau("topic", "list").rows}


def test_what_was_done_is_confirmed(moldau_broker: MoldauProcess, moldau_topic: str) -> None:
    _, shown = on_terminal(moldau_broker, "produce", moldau_topic, "a", "b")
    assert f"2 records to '{moldau_topic}'." in plain(shown)


def test_errors_are_coloured(moldau_broker: MoldauProcess) -> None:
    code, shown = on_terminal(moldau_broker, "topic", "describe", "not-there")
    assert code == 4
    assert "\x1b[1;31mmoldau: \x1b[0mThere is no topic 'not-there'." in shown


def test_help_has_colours_on_a_terminal(moldau_broker: MoldauProcess) -> None:
    code, shown = on_terminal(moldau_broker, "--help")
    assert code == 0
    assert "\x1b[" in shown
    assert "Start a broker for development" in plain(shown)
    _, sub = on_terminal(moldau_broker, "consume", "--help")
    assert "--from-beginning" in plain(sub)
