"""What the brokers say of a pipeline, whether it reports anything or hangs: lags, dead letters."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from moldau.client.closing import Closing
from moldau.model import TopicPartition
from moldau.spark.pipeline.lags import Lag, lags_of, total
from moldau.spark.pipeline.letters import letters_of
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.runs.history import History
from moldau.spark.pipeline.runs.record import now
from moldau.spark.pipeline.spec import Pipeline, TopicSource
from moldau.spark.pipeline.topics import reads_topic

PAUSE: Final = 10.0
"""Between questions."""
_WRITTEN: Final = 30.0
"""Between lines of the history."""
_PATIENCE: Final = 5.0


class Watch(Closing):
    """Asks in a thread of its own until it is closed."""

    def __init__(self, pipeline: Pipeline, history: History) -> None:
        self._pipeline = pipeline
        self._history = history
        self._last: dict[str, Progress] = {}
        self._closed = threading.Event()
        self._written = 0.0
        self.lags: Mapping[str, Lag] = {}
        """By source."""
        self.letters: Mapping[str, int] = {}
        """By topic: those that are there now."""
        self._thread = threading.Thread(target=self._run, name="moldau watch", daemon=True)
        self._thread.start()

    def add(self, progress: Progress) -> None:
        """A batch is done."""
        self._last[progress.sink] = progress

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(PAUSE):
            self._ask()

    def _ask(self) -> None:
        lags = lags_of(self._pipeline, self._offsets(), _PATIENCE)
        self.lags = {
            source.name: lag
            for source in self._pipeline.sources
            if isinstance(source, TopicSource)
            and (lag := total(lags, [at for at in lags if reads_topic(source, at.topic)]))
            is not None
        }
        self.letters = letters_of(self._pipeline, _PATIENCE)
        if self.lags and time.monotonic() - self._written >= _WRITTEN:
            self._written = time.monotonic()
            self._history.watched(self.lags, self.letters, now())

    def _offsets(self) -> dict[TopicPartition, int]:
        """The next ones to read, of the sink that is the furthest behind."""
        found: dict[TopicPartition, int] = {}
        for progress in list(self._last.values()):
            for topic, offsets in progress.offsets.items():
                for number, offset in offsets.items():
                    partition = TopicPartition(topic, int(number))
                    found[partition] = min(offset, found.get(partition, offset))
        return found
