"""Many lives: progress, summary, exit codes, and a command that replays."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Callable

import pytest

from moldau.testing.simulation import __main__ as command
from moldau.testing.simulation import running
from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.lives.outcome import Outcome
from moldau.testing.simulation.simulation import Simulation

Run = Callable[..., int]


class ShortLife:
    """Every third one breaks a promise, the seventh does not get that far."""

    def __init__(self, seed: int, *, keep_events: bool = False) -> None:
        self.seed = seed
        self.plan = "a short life"
        self.simulation = Simulation(seed, keep_events=keep_events)

    def run(self) -> Outcome:
        with self.simulation as simulation:
            simulation.node("broker").boot()
            simulation.recorder.record("broker", "append", "something")
        if self.seed == 7:
            raise ZeroDivisionError("in the story itself")
        broken = [Violation("promise", "[it] was broken", at=0.0)] if self.seed % 3 == 0 else []
        return Outcome(self.seed, broken, simulation.recorder.digest, 10.0, 100, 2)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line, with lives that are short."""
    monkeypatch.setattr(running, "OneBrokerLife", ShortLife)

    def main(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["simulation", *arguments])
        return command.main()

    return main


def test_lives_that_keep_their_promises_are_counted(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--lives", "2", "--first", "1", "--jobs", "1") == 0
    output = capsys.readouterr().out
    assert "2/2" in output
    assert "2 lives, 20 simulated seconds in" in output
    assert "4 crashes, 200 records acknowledged; 0 lives broke a promise" in output
    assert "--replay" not in output


def test_a_broken_promise_is_told_and_can_be_replayed(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--lives", "4", "--first", "1", "--jobs", "1") == 1
    output = capsys.readouterr().out
    assert "seed 3: promise: [it] was broken (at 0.000000 s)" in output
    assert "1 lives broke a promise" in output
    (line,) = (line for line in output.splitlines() if "--replay" in line)
    python, dash_m, module, *arguments = shlex.split(line)
    assert [python, dash_m, module] == ["python", "-m", "moldau.testing.simulation"]
    assert run(*arguments) == 1
    story = capsys.readouterr().out
    assert story.startswith("Seed 3: a short life")
    assert "promise: [it] was broken" in story
    assert "broker       starts" in story
    assert "digest" in story


def test_a_life_that_fails_itself_does_not_end_the_run(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--lives", "2", "--first", "7", "--jobs", "1") == 1
    output = capsys.readouterr().out
    assert "seed 7: the life itself failed: Traceback" in output
    assert "ZeroDivisionError: in the story itself" in output
    assert "2 lives" in output
    assert run("--replay", "7") == 1
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_a_good_life_can_be_replayed_too(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--replay", "1") == 0
    assert "Nothing was broken." in capsys.readouterr().out


def test_a_replay_tells_everything_on_demand(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("--replay", "1")
    assert "append" not in capsys.readouterr().out
    run("--replay", "1", "--all")
    assert "append       something" in capsys.readouterr().out


def test_a_run_lasts_as_long_as_told(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(
        "moldau.testing.simulation.running.time.monotonic", lambda: float(next(seconds))
    )
    assert run("--minutes", "0.1", "--first", "1", "--jobs", "1", "--lives", "1000000") == 1
    lives = int(capsys.readouterr().out.split(" lives, ")[0].split()[-1])
    assert 1 < lives < 10


def test_collection_goes_on_after_a_life(run: Run) -> None:
    assert gc.isenabled()
    run("--lives", "1", "--jobs", "1")
    assert gc.isenabled()


def test_lives_run_on_several_cores(capsys: pytest.CaptureFixture[str]) -> None:
    summary = running.run_lives(1, 2, jobs=2)
    assert summary.lives == 2
    assert summary.seconds > 10
    assert summary.acknowledged > 0
    assert "2/2" in capsys.readouterr().out
