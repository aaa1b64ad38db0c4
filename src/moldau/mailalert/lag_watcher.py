"""Measures the lag of groups now and then and raises the alerts that its rules ask for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime

from moldau.client.admin import Admin
from moldau.client.errors import KafkaError
from moldau.mailalert.alert import Alert, Severity
from moldau.mailalert.lag import Lag, LagRule, LagWatch, QuietHours
from moldau.mailalert.settings_tables import WatchTable, parse_duration_ms

_log = logging.getLogger(__name__)


class LagWatcher:
    def __init__(
        self,
        admin: Admin,
        send: Callable[[Alert], object],  # returns when the alert is stored, or raises
        watches: Sequence[WatchTable],
        every: float,
    ) -> None:
        self._admin = admin
        self._send = send
        self._watches = [LagWatch(rule_of(watch)) for watch in watches]
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mailalert lag", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10.0)

    def look(self) -> None:
        """One round over all rules."""
        for watch in self._watches:
            try:
                self._look_at(watch)
            except (KafkaError, TimeoutError) as error:
                _log.warning("the lag of group %s: %s; next time", watch.rule.group, error)

    def _look_at(self, watch: LagWatch) -> None:
        lag = self._measure(watch.rule)
        before = copy(watch)
        alert = watch.update(lag, time.time_ns() // 1_000_000, datetime.now().astimezone())
        if alert is None:
            return
        _log.info("%s: %s", alert.subject, alert.body)
        try:
            self._send(alert)
        except BaseException:
            # Nobody was told, so the next round has to.
            watch.state, watch.since_ms = before.state, before.since_ms
            raise

    def _measure(self, rule: LagRule) -> Lag:
        partitions = [
            lag
            for partition, lag in self._admin.group_lag(rule.group).items()
            if rule.topic in (None, partition.topic)
        ]
        return Lag(
            records=sum(lag.records or 0 for lag in partitions),
            seconds=max((lag.behind_ms or 0 for lag in partitions), default=0) / 1000,
        )

    def _run(self) -> None:
        while True:
            self.look()
            if self._stop.wait(self._every):
                return


def rule_of(watch: WatchTable) -> LagRule:
    return LagRule(
        group=watch.group,
        topic=watch.topic,
        records=watch.records,
        seconds=watch.seconds,
        clear_below=watch.clear_below,
        lasting_ms=parse_duration_ms(watch.lasting),
        quiet_hours=QuietHours.parse(watch.quiet_hours) if watch.quiet_hours else None,
        severity=Severity.parse(watch.severity),
        recipients=tuple(watch.recipients),
    )
