"""From the queue into the database, and what may be committed for it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import OperationalError
from tests.support.waiting import eventually

from moldau.mailalert.alert import Alert
from moldau.mailalert.database import Database
from moldau.mailalert.intake import Drain, Progress
from moldau.mailalert.settings_tables import Settings
from moldau.mailalert.states import AlertState
from moldau.mailalert.status import list_alerts
from moldau.mailalert.store import AlertStore, Incoming
from moldau.model import TopicPartition

PLACE = TopicPartition("alerts", 0)


def incoming(offset: int, **more: Any) -> Incoming:
    return Incoming("alerts", 0, offset, Alert("disk full", f"body {offset}", **more))


@contextmanager
def draining(store: AlertStore, *batch: Incoming) -> Iterator[tuple[Drain, Progress]]:
    alerts: queue.Queue[Incoming] = queue.Queue()
    for one in batch:
        alerts.put(one)
    progress = Progress()
    progress.own([PLACE])
    drain = Drain(alerts, store, progress)
    drain.start()
    try:
        yield drain, progress
    finally:
        drain.stop()


def test_an_alert_that_cannot_be_stored_is_kept_as_invalid_and_stops_nobody(
    database: Database,
) -> None:
    store = AlertStore(database, Settings().grouping(), lambda _alert: ("ops@example.org",))
    with draining(store, incoming(0), incoming(1, time_ms=2**70), incoming(2)) as (drain, progress):
        eventually(lambda: progress.to_commit([PLACE]) == {PLACE: 3})
    assert drain.failure is None
    states = {row["offset"]: row["state"] for row in list_alerts(database)}
    assert states == {0: AlertState.RECEIVED, 1: AlertState.INVALID, 2: AlertState.RECEIVED}


class ForgetfulStore(AlertStore):
    """Its database is away for the first few times."""

    failures = 2

    def store(self, batch: object, now_ms: int) -> int:
        if self.failures:
            self.failures -= 1
            raise OperationalError("INSERT", None, Exception("database or disk is full"))
        return super().store(batch, now_ms)  # type: ignore[arg-type]


def test_alerts_wait_for_the_database(database: Database) -> None:
    store = ForgetfulStore(database, Settings().grouping(), lambda _alert: ("ops@example.org",))
    with draining(store, incoming(0), incoming(1)) as (_, progress):
        eventually(lambda: progress.to_commit([PLACE]) == {PLACE: 2})
    assert {row["state"] for row in list_alerts(database)} == {AlertState.RECEIVED}


def test_only_what_is_ours_is_committed() -> None:
    progress = Progress()
    progress.stored([incoming(5)])
    assert progress.to_commit([PLACE]) == {}
    progress.own([PLACE])
    progress.stored([incoming(7), incoming(8)])
    assert progress.to_commit([PLACE]) == {PLACE: 9}
    progress.committed({PLACE: 9})
    assert progress.to_commit([PLACE]) == {}
    progress.forget([PLACE])
    progress.stored([incoming(9)])  # it was in the queue when the partition went
    progress.own([PLACE])
    assert progress.to_commit([PLACE]) == {}


def test_a_topic_made_anew_starts_again() -> None:
    progress = Progress()
    progress.own([PLACE])
    progress.stored([incoming(100)])
    progress.committed({PLACE: 101})
    progress.stored([incoming(0), incoming(1)])
    assert progress.to_commit([PLACE]) == {PLACE: 2}
