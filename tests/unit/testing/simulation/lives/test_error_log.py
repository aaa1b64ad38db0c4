"""What programs log goes into the history, and nowhere else."""

from __future__ import annotations

import logging

import pytest

from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.lives.error_log import ProgramLog
from moldau.testing.simulation.process import Process
from moldau.testing.simulation.simulation import Simulation

logger = logging.getLogger("moldau.something")


def fail(error: Exception) -> None:
    try:
        raise error
    except Exception:
        logger.exception("it failed")


def log(keep_events: bool = False) -> tuple[Simulation, History, ProgramLog]:
    simulation = Simulation(1, keep_events=keep_events)
    history = History(simulation.loop.time)
    return simulation, history, ProgramLog(history, simulation.recorder)


def test_an_error_that_nobody_expected_is_noted_with_its_program() -> None:
    simulation, history, program_log = log()
    node = simulation.node("broker")
    node.boot()
    assert node.process is not None
    with program_log:
        node.process.context.run(fail, ValueError("wrong"))
        fail(ValueError("worse"))
    assert history.errors == [
        (0.0, "broker#1", "moldau.something: it failed: ValueError('wrong')"),
        (0.0, "world", "moldau.something: it failed: ValueError('worse')"),
    ]


def test_a_failing_disk_is_expected_and_so_are_lines_without_an_error() -> None:
    _, history, program_log = log()
    with program_log:
        fail(OSError("disk on fire"))
        logger.error("no connection")
    assert history.errors == []


def test_a_callback_that_fails_is_an_error_of_its_program() -> None:
    simulation, history, program_log = log()
    process = Process("client#1", simulation.loop)

    def wrong() -> None:
        raise ValueError("wrong")

    simulation.loop.call_soon(wrong, context=process.context)
    with program_log:
        simulation.loop.run_forever()
    ((_, program, text),) = history.errors
    assert program == "client#1"
    assert text.startswith("asyncio: Exception in callback")
    assert text.endswith("ValueError('wrong')")


def test_the_dead_have_no_say() -> None:
    simulation, history, program_log = log(keep_events=True)
    process = Process("client#1", simulation.loop)
    process.end()
    with program_log:
        process.context.run(fail, ValueError("wrong"))
    assert history.errors == []
    assert simulation.recorder.events == []


def test_every_line_is_told_to_whoever_reads_the_timeline() -> None:
    simulation, _, program_log = log(keep_events=True)
    with program_log:
        logger.debug("a detail")
        logger.warning("careful")
    assert [(event.kind, event.details) for event in simulation.recorder.events] == [
        ("debug", ("a detail",)),
        ("warning", ("careful",)),
    ]


def test_logging_is_left_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    loggers = [logging.getLogger(name) for name in ("moldau", "asyncio")]
    before = [(one.level, one.propagate, list(one.handlers)) for one in loggers]
    _, _, program_log = log()
    with program_log:
        logger.error("not for others")
    assert [(one.level, one.propagate, list(one.handlers)) for one in loggers] == before
    assert caplog.records == []
