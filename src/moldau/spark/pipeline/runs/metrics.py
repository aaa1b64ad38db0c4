"""Metrics of a run over HTTP, for Prometheus; off unless a pipeline says where."""

from __future__ import annotations

import threading
from typing import Final

from moldau.client.blocking import LoopThread
from moldau.client.closing import Closing
from moldau.machine.real.machine import this_machine
from moldau.metrics import CONTENT_TYPE
from moldau.net.text_server import Page, TextServer
from moldau.spark.pipeline.lags import lags_of, total
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.runs.claim import Claim
from moldau.spark.pipeline.runs.samples import Totals, render
from moldau.spark.pipeline.spec import Pipeline, TopicSource
from moldau.spark.pipeline.topics import reads_topic

PAUSE: Final = 10.0
"""Between questions to the brokers how far their topics are."""
_PATIENCE: Final = 5.0


class MetricsServer(Closing):
    """Serves ``/metrics`` until it is closed."""

    def __init__(self, pipeline: Pipeline, claim: Claim, address: str) -> None:
        """OSError if the address cannot be had."""
        self._pipeline = pipeline
        self._claim = claim
        self._totals = Totals(pipeline.name)
        self._closed = threading.Event()
        host, _, port = address.rpartition(":")
        self._thread = LoopThread("metrics")
        self._server = TextServer(
            this_machine(),
            host.strip("[]"),
            int(port),
            {"/metrics": Page(CONTENT_TYPE, self._render)},
        )
        try:
            self._thread.run(self._start())
        except BaseException:
            self._thread.stop()
            raise
        self._watch = threading.Thread(target=self._ask, name="moldau lag", daemon=True)
        self._watch.start()

    @property
    def port(self) -> int:
        return self._server.port

    def add(self, progress: Progress) -> None:
        """A batch is done."""
        self._totals.add(progress)

    def close(self) -> None:
        self._closed.set()
        self._thread.run(self._stop())
        self._thread.stop()

    async def _start(self) -> None:
        self._server.start()

    async def _stop(self) -> None:
        self._server.close()

    def _render(self) -> str:
        return render(self._totals.families(self._claim.record))

    def _ask(self) -> None:
        """The brokers themselves: a pipeline that hangs reports nothing."""
        while not self._closed.is_set():
            lags = lags_of(self._pipeline, self._totals.offsets(), _PATIENCE)
            self._totals.lags = {
                source.name: lag
                for source in self._pipeline.sources
                if isinstance(source, TopicSource)
                and (lag := total(lags, [at for at in lags if reads_topic(source, at.topic)]))
                is not None
            }
            self._closed.wait(PAUSE)
