"""What starting the command line costs, and how failures end."""

import subprocess
import sys

import pytest

from moldau.cli import coordination_serve
from moldau.cli.app import COMMANDS, build
from moldau.cli.exit_codes import (
    CommandError,
    ExitCode,
    UsageError,
    exit_code_of,
    sentence_for,
)
from moldau.cli.load import Measured, percentile
from moldau.cli.main import main
from moldau.cli.serve import FLAGS, serve_quickly
from moldau.client.errors import NoBrokersError, TimedOutError, UnknownTopicError
from moldau.errors import ErrorCode, KafkaError


def imported_by(*args: str) -> set[str]:
    code = (
        "import sys\nfrom moldau.cli import main\n"
        f"main({list(args)!r})\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=150
    )
    return {name.split(".")[0] for name in done.stderr.split()} | set(done.stderr.split())


@pytest.mark.parametrize("args", [["--help"], ["up", "--help"], ["--version"]])
def test_help_is_cheap(args: list[str]) -> None:
    loaded = imported_by(*args)
    assert not loaded & {"rich", "asyncio", "kio", "uvloop", "msgspec", "hypothesis"}
    assert not loaded & {"moldau.client", "moldau.broker", "moldau.config", "moldau.wire"}


def test_a_broker_starts_without_the_tools() -> None:
    # It gets as far as the settings, and no further.
    loaded = imported_by("up", "--override", "num.partitions=many")
    assert "moldau.config" in loaded
    assert not loaded & {"typer", "click", "pydantic", "rich", "msgspec", "moldau.client"}


@pytest.mark.parametrize("command", FLAGS)
def test_the_quick_way_knows_the_same_options_as_typer(command: str) -> None:
    declared = {
        flag: parameter.name
        for parameter in build().get_command(None, command).params
        for flag in parameter.opts
    }
    assert FLAGS[command] == declared


def test_so_it_is_with_coordination() -> None:
    group = build().get_command(None, "coordination")
    declared = {
        flag: parameter.name
        for parameter in group.get_command(None, "serve").params
        for flag in parameter.opts
    }
    assert declared == coordination_serve.FLAGS


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-p"],
        ["-p=1"],
        ["-p1"],
        ["--port", "x"],
        ["--port", "70000"],
        ["--port", "--host"],
        ["--nonsense", "1"],
        ["positional"],
    ],
)
def test_what_is_not_plain_is_left_to_typer(arguments: list[str]) -> None:
    assert serve_quickly("up", arguments) is None


def test_only_the_command_in_use_is_imported() -> None:
    loaded = imported_by("up", "--help")
    assert "moldau.cli.serve" in loaded
    assert not loaded & {"moldau.cli.topic", "moldau.cli.consume", "moldau.cli.tables"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"Usage: moldau {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (CommandError("It failed."), ExitCode.FAILURE, "It failed."),
        (UsageError("not so"), ExitCode.USAGE, "not so."),
        (NoBrokersError("nobody there"), ExitCode.CANNOT_CONNECT, "nobody there."),
        (UnknownTopicError("t"), ExitCode.NOT_FOUND, "There is no topic 't'."),
        (UnknownTopicError("t", 3), ExitCode.NOT_FOUND, "Topic 't' has no partition 3."),
        (TimedOutError("too late"), ExitCode.TIMED_OUT, "too late."),
        (
            KafkaError(ErrorCode.INVALID_CONFIG, "Bad\nvalue."),
            ExitCode.FAILURE,
            "Bad value (INVALID_CONFIG)",
        ),
        (FileNotFoundError(2, "No such file", "x"), ExitCode.FAILURE, "x: No such file."),
        (
            RuntimeError("oops"),
            ExitCode.FAILURE,
            "Unexpected RuntimeError: oops (--debug shows where)",
        ),
    ],
)
def test_failures_are_one_sentence_and_a_code(
    error: Exception, code: ExitCode, sentence: str
) -> None:
    assert exit_code_of(error) == code
    assert sentence_for(error) == sentence


def test_percentiles_are_nearest_ranks() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([7.0], 0.5) == 7.0
    assert percentile([], 0.5) == 0.0


def test_measurements_add_up() -> None:
    measured = Measured(seconds=2.0)
    for latency in (0.001, 0.002, 0.003):
        measured.add(10, 1_000_000, latency)
    document = measured.as_dict()
    assert document["records"] == 30
    assert document["records_per_second"] == 15
    assert document["megabytes_per_second"] == 1.5
    assert (document["latency_p50_ms"], document["latency_max_ms"]) == (2.0, 3.0)
