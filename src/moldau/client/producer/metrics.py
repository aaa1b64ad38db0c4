"""What a producer counts, under Kafka's names."""

from __future__ import annotations

from collections import defaultdict, deque


class Rate:
    """Events per second over the last ``samples`` windows, the current one included."""

    __slots__ = ("_samples", "_started", "_sums", "_window", "total")

    def __init__(self, window: float, samples: int, now: float) -> None:
        self._window = max(window, 0.001)
        self._samples = samples
        self._started = now
        self._sums: deque[list[float]] = deque(maxlen=samples)
        self.total = 0.0

    def add(self, amount: float, now: float) -> None:
        self.total += amount
        if not self._sums or now - self._sums[-1][0] >= self._window:
            self._sums.append([now, 0.0])
        self._sums[-1][1] += amount

    def per_second(self, now: float) -> float:
        span = self._window * self._samples
        recent = [amount for began, amount in self._sums if now - began < span]
        elapsed = min(max(now - self._started, 0.001), span)
        return sum(recent) / elapsed


class Average:
    """Average and maximum since the start."""

    __slots__ = ("count", "highest", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.highest = 0.0

    def add(self, amount: float) -> None:
        self.total += amount
        self.count += 1
        self.highest = max(self.highest, amount)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


class ProducerMetrics:
    """Kept by the sender; read from any thread."""

    def __init__(self, window: float, samples: int, now: float) -> None:
        self._rates = {
            name: Rate(window, samples, now)
            for name in ("record-send", "byte", "record-retry", "record-error", "request")
        }
        self._averages: dict[str, Average] = defaultdict(Average)

    def sent(self, batches: int, records: int, size: int, now: float) -> None:
        """A request left."""
        self._rates["request"].add(1, now)
        self._rates["record-send"].add(records, now)
        self._rates["byte"].add(size, now)
        self._averages["records-per-request"].add(records)
        if batches:
            self._averages["batch-size"].add(size / batches)

    def answered(self, seconds: float) -> None:
        self._averages["request-latency"].add(seconds * 1000)

    def queued(self, seconds: float) -> None:
        """How long a batch waited before it was sent."""
        self._averages["record-queue-time"].add(seconds * 1000)

    def compressed(self, rate: float) -> None:
        self._averages["compression-rate"].add(rate)

    def retried(self, records: int, now: float) -> None:
        self._rates["record-retry"].add(records, now)

    def failed(self, records: int, now: float) -> None:
        self._rates["record-error"].add(records, now)

    def read(self, now: float) -> dict[str, float]:
        figures = {}
        for name, rate in self._rates.items():
            label = "outgoing-byte" if name == "byte" else name
            figures[f"{label}-rate"] = rate.per_second(now)
            figures[f"{label}-total"] = rate.total
        for name in (
            "batch-size",
            "records-per-request",
            "request-latency",
            "record-queue-time",
            "compression-rate",
        ):
            average = self._averages[name]
            figures[f"{name}-avg"] = average.mean
            if name in ("batch-size", "request-latency", "record-queue-time"):
                figures[f"{name}-max"] = average.highest
        return figures
