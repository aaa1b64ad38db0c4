"""One run of a pipeline at a time on a checkpoint, restarted as its file says."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.exit_codes import CommandError
from moldau.cli.output import warn

if TYPE_CHECKING:
    from moldau.spark.pipeline.failures import PipelineFailedError
    from moldau.spark.pipeline.problems import PipelineError
    from moldau.spark.pipeline.progress import Progress
    from moldau.spark.pipeline.runs.claim import Claim
    from moldau.spark.pipeline.spec import Pipeline

_PAUSE: Final = 0.1


class Supervisor:
    """What an attempt reports to: all of it is written down, and shown to Prometheus."""

    def __init__(self, pipeline: Pipeline, claim: Claim) -> None:
        self._pipeline = pipeline
        self.claim = claim
        self._listeners: list[Callable[[Progress], object]] = [claim.history.batch]

    def begin(self, stack: ExitStack) -> None:
        """Watch it, and serve metrics if they are wanted."""
        from moldau.spark.pipeline.runs.watch import Watch

        watch = stack.enter_context(Watch(self._pipeline, self.claim.history))
        self._listeners.append(watch.add)
        if self._pipeline.metrics is None:
            return
        from moldau.spark.pipeline.runs.metrics import MetricsServer

        try:
            server = MetricsServer(self.claim, watch, self._pipeline.metrics)
        except OSError as error:
            raise CommandError(
                f"Metrics cannot be served at {self._pipeline.metrics}: {error.strerror or error}"
            ) from None
        stack.enter_context(server)
        self._listeners.append(server.add)

    def report(self, progress: Progress) -> None:
        for listener in self._listeners:
            listener(progress)

    def tell(self, state: Any) -> None:
        self.claim.change(state)


def supervised(pipeline: Pipeline, attempt: Callable[[Supervisor], int | None]) -> int | None:
    """What the attempt gives: the signal that ended it before its time, or None.

    An attempt that fails in a way that may pass is made again after a while, if the file says so:
    by the same command in the same process, so that nothing is left of what failed.
    """
    from moldau.spark.pipeline.failures import PipelineFailedError
    from moldau.spark.pipeline.problems import PipelineError
    from moldau.spark.pipeline.runs.claim import Claim
    from moldau.spark.pipeline.signals import RestartRequestedError

    claim = Claim(pipeline)
    with claim, ExitStack() as stack:
        supervisor = Supervisor(pipeline, claim)
        supervisor.begin(stack)
        try:
            return attempt(supervisor)
        except RestartRequestedError:
            stack.close()
            claim.begin_anew()
        except (PipelineError, PipelineFailedError) as error:
            seconds = _delay(pipeline, claim, error)
            claim.fail(_sentence(error), again=seconds is not None)
            if seconds is None:
                raise
            warn(f"{_sentence(error)} Tried again in {seconds:g} s.")
            number = _wait(seconds)
            if number is not None:
                return number
            stack.close()
            claim.begin_anew()


def _delay(
    pipeline: Pipeline, claim: Claim, error: PipelineError | PipelineFailedError
) -> float | None:
    from moldau.spark.pipeline.problems import PipelineError
    from moldau.spark.pipeline.runs.policy import delay, may_pass

    policy = pipeline.restart
    if policy is None or not may_pass(error):
        return None
    if isinstance(error, PipelineError) and not claim.restarted:
        return None  # its file was changed, and somebody waits for it
    claim.forget_failures(policy.reset_after / 1000)
    return delay(policy, claim.record.failures + 1)


def _wait(seconds: float) -> int | None:
    """The signal that came meanwhile, unless it asks for what comes anyway."""
    from moldau.spark.pipeline.signals import Signals

    with Signals(lambda _: None) as signals:
        end = time.monotonic() + seconds
        while signals.received is None and time.monotonic() < end:
            time.sleep(min(_PAUSE, seconds))
    return None if signals.restart_requested else signals.received


def _sentence(error: PipelineError | PipelineFailedError) -> str:
    text = " ".join(str(error).split("\n"))
    return text if text.endswith((".", ")", "?")) else f"{text}."
