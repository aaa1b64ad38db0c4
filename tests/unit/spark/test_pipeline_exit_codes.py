"""What ``moldau pipeline`` says and leaves behind when something around it does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.scripted_broker import powered_off, silent

FILE = """\
name = "copy"

[[sources]]
name = "records"
topic = "events"
bootstrap_servers = "SERVERS"

[[sinks]]
from = "records"
SINK
"""


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine("", capsys)


def test_silence_and_no_connection_have_the_documented_exit_codes(cli: CommandLine) -> None:
    with silent() as mute, powered_off() as off:
        for servers, code in ((mute, 5), (off, 3)):
            text = FILE.replace("SERVERS", servers).replace("SINK", "console = true")
            Path("copy.toml").write_text(text)
            for command in (("validate", "--connect"), ("run",)):
                said = cli("pipeline", *command, "copy.toml", "--timeout", "1", code=code).err
                assert f"copy.toml:6: {servers} " in said


def test_a_password_with_signs_in_it_is_not_shown(cli: CommandLine) -> None:
    sink = 'table = "people"\ndatabase = "postgresql+psycopg://me:p@q:sec@host/people"'
    Path("copy.toml").write_text(FILE.replace("SERVERS", "127.0.0.1:1").replace("SINK", sink))
    said = cli("pipeline", "validate", "copy.toml", code=1).err
    assert said.startswith("copy.toml:11: database of [[sinks]] cannot be read")
    assert "sec" not in said
