"""Metrics of a run over HTTP, for Prometheus; off unless a pipeline says where."""

from __future__ import annotations

from moldau.client.blocking import LoopThread
from moldau.client.closing import Closing
from moldau.machine.real.machine import this_machine
from moldau.metrics import CONTENT_TYPE
from moldau.net.text_server import Page, TextServer
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.runs.claim import Claim
from moldau.spark.pipeline.runs.samples import Totals, render
from moldau.spark.pipeline.runs.watch import Watch


class MetricsServer(Closing):
    """Serves ``/metrics`` until it is closed."""

    def __init__(self, claim: Claim, watch: Watch, address: str) -> None:
        """OSError if the address cannot be had."""
        self._claim = claim
        self._watch = watch
        self._totals = Totals(claim.record.pipeline)
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

    @property
    def port(self) -> int:
        return self._server.port

    def add(self, progress: Progress) -> None:
        """A batch is done."""
        self._totals.add(progress)

    def close(self) -> None:
        self._thread.run(self._stop())
        self._thread.stop()

    async def _start(self) -> None:
        self._server.start()

    async def _stop(self) -> None:
        self._server.close()

    def _render(self) -> str:
        return render(
            self._totals.families(self._claim.record, self._watch.lags, self._watch.letters)
        )
