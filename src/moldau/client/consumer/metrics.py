"""What a consumer counts, by Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable


class ConsumerMetrics:
    """Totals, and rates over the time since the last look."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.records = 0
        self.polls = 0
        self.commits = 0
        self._since = now()
        self._records_then = 0
        self._bytes_then = 0

    def consumed(self, groups: Iterable[Collection[object]]) -> None:
        self.polls += 1
        for group in groups:
            self.records += len(group)

    def snapshot(
        self,
        *,
        fetches: int,
        bytes_fetched: int,
        assigned: int,
        rebalances: int,
        lags: list[int],
    ) -> dict[str, float]:
        now = self._now()
        seconds = max(now - self._since, 1e-9)
        rates = (
            (self.records - self._records_then) / seconds,
            (bytes_fetched - self._bytes_then) / seconds,
        )
        self._since, self._records_then, self._bytes_then = now, self.records, bytes_fetched
        return {
            "records-consumed-total": float(self.records),
            "records-consumed-rate": rates[0],
            "bytes-consumed-total": float(bytes_fetched),
            "bytes-consumed-rate": rates[1],
            "records-per-request-avg": self.records / fetches if fetches else 0.0,
            "fetch-total": float(fetches),
            "fetch-size-avg": bytes_fetched / fetches if fetches else 0.0,
            "records-lag-max": float(max(lags, default=0)),
            "assigned-partitions": float(assigned),
            "rebalance-total": float(rebalances),
            "commit-total": float(self.commits),
        }
