"""What programs log, as the world sees it."""

from __future__ import annotations

import logging
from typing import Final

from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.process import PROCESS
from moldau.testing.simulation.recorder import Recorder

LOGGERS: Final = ("moldau", "asyncio")
"""Where programs log, and where a loop tells of what nobody caught."""


class ProgramLog(logging.Handler):
    """Notes errors that no program expected; with a recorder that keeps events, every line.

    A disk that fails is expected here, so errors of the operating system are.
    """

    def __init__(self, history: History, recorder: Recorder) -> None:
        super().__init__(logging.DEBUG if recorder.keeps else logging.ERROR)
        self._history = history
        self._recorder = recorder
        self._before: dict[logging.Logger, tuple[int, bool]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None and process.has_ended:
            return  # killed in the middle of a block that had a word to say about it
        program = "world" if process is None else process.name
        self._recorder.tell(program, record.levelname.lower(), record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError):
            self._history.errors.append(
                (
                    self._history.now(),
                    program,
                    f"{record.name}: {record.getMessage()}: {error!r}",
                )
            )

    def __enter__(self) -> None:
        for name in LOGGERS:
            logger = logging.getLogger(name)
            self._before[logger] = (logger.level, logger.propagate)
            logger.addHandler(self)
            logger.setLevel(self.level)
            logger.propagate = False

    def __exit__(self, *_: object) -> None:
        for logger, (level, propagate) in self._before.items():
            logger.removeHandler(self)
            logger.setLevel(level)
            logger.propagate = propagate
        self._before.clear()
