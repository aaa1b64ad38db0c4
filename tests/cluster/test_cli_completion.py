"""What a shell is told when a person asks it to complete a word, as bash asks."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.waiting import eventually

from moldau import Consumer
from moldau.model import TopicPartition

NOBODY = "127.0.0.1:1"


def complete(*words: str, **env: str) -> list[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
    asked = {
        "_MOLDAU_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("moldau", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "moldau.cli"],
        env=clean | asked | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stderr == "", "nothing is written into the line that a person types"
    return done.stdout.split()


@pytest.fixture
def topic(moldau: CommandLine) -> Iterator[str]:
    name = f"complete-{uuid.uuid4().hex[:8]}"
    moldau("topic", "create", name)
    yield name
    moldau("topic", "delete", name)


def test_commands_and_options() -> None:
    assert complete("topic", "desc") == ["describe"]
    assert "--json" in complete("topic", "list", "--js")


def test_names_of_topics(moldau: CommandLine, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={moldau.bootstrap}\n")
    words = ("topic", "describe")
    # Nobody waits at a prompt for longer than a second: a busy broker may miss it.
    eventually(lambda: complete(*words, topic[:-1], MOLDAU_BOOTSTRAP=moldau.bootstrap) == [topic])
    eventually(lambda: complete(*words, "-b", moldau.bootstrap, topic[:-1]) == [topic])
    eventually(lambda: complete(*words, topic[:-1], MOLDAU_CLIENT_CONFIG=str(file)) == [topic])
    eventually(lambda: complete(*words, "--command-config", str(file), topic[:-1]) == [topic])
    assert complete(*words, "-b", NOBODY, "--command-config", str(file), topic) == []


def test_names_of_groups(moldau: CommandLine, topic: str) -> None:
    # What a shell would run, or a terminal obey, is nobody's to complete.
    for group in (f"{topic}$(id)", f"{topic};id", f"{topic}\x1b[31m", topic):
        with Consumer(bootstrap_servers=moldau.bootstrap, group_id=group) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.commit({TopicPartition(topic, 0): 0})
    eventually(
        lambda: (
            complete("group", "describe", topic[:-1], MOLDAU_BOOTSTRAP=moldau.bootstrap) == [topic]
        )
    )


def test_what_cannot_be_asked_completes_nothing(tmp_path: Path) -> None:
    assert complete("topic", "describe", "a", MOLDAU_BOOTSTRAP=NOBODY) == []
    missing = str(tmp_path / "nothing")
    assert complete("topic", "describe", "a", MOLDAU_CLIENT_CONFIG=missing) == []
