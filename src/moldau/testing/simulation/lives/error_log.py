"""What programs log, as the world sees it."""

from __future__ import annotations

import logging

from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.process import PROCESS
from moldau.testing.simulation.recorder import Recorder


class ProgramLog(logging.Handler):
    """Notes errors that no program expected; with a recorder that keeps events, every line.

    A disk that fails is expected here, so errors of the operating system are.
    """

    def __init__(self, history: History, recorder: Recorder) -> None:
        super().__init__(logging.DEBUG if recorder.keeps else logging.ERROR)
        self._history = history
        self._recorder = recorder
        self._logger = logging.getLogger("moldau")
        self._before = (self._logger.level, self._logger.propagate)

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
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
        self._logger.addHandler(self)
        self._logger.setLevel(self.level)
        self._logger.propagate = False

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        level, propagate = self._before
        self._logger.setLevel(level)
        self._logger.propagate = propagate
