"""What is written to the database and when: every step of an alert's life is one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, case, delete, insert, select, update

from moldau.mailalert.alert import Alert, InvalidAlertError, Severity
from moldau.mailalert.database import Database
from moldau.mailalert.grouping import Grouper, GroupingRules, OpenMail
from moldau.mailalert.schema import alerts, mails
from moldau.mailalert.states import MailState

_KEPT_OF_INVALID: Final = 4096
"""Bytes of a record that is no alert that are kept to look at."""

Recipients = Callable[[Alert], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A record from the topic, decoded or found wanting."""

    topic: str
    partition: int
    offset: int
    alert: Alert | InvalidAlertError
    raw: bytes = b""


@dataclass(slots=True)
class _Change:
    """What a batch of alerts does to one mail."""

    mail: OpenMail
    is_new: bool
    count: int = 0
    duplicates: int = 0
    severity: int = 0
    times: list[int] = field(default_factory=list)


class AlertStore:
    """Stores alerts and places them into mails. Used by one thread."""

    def __init__(self, database: Database, rules: GroupingRules, recipients: Recipients) -> None:
        self._database = database
        self._rules = rules
        self._recipients = recipients
        self._grouper: Grouper | None = None

    def store(self, batch: Sequence[Incoming], now_ms: int) -> int:
        """Store what is not stored yet, in one transaction; answers how many were new.

        After an error nothing of the batch is stored, and it can be given again.
        """
        try:
            with self._database.write() as connection:
                grouper = self._grouper or self._load(connection, now_ms)
                self._grouper = grouper
                grouper.forget(now_ms)
                new = _without_known(connection, batch)
                self._write(connection, grouper, new, now_ms)
        except BaseException:
            self._grouper = None  # it may remember mails that were never written
            raise
        return len(new)

    def _load(self, connection: Connection, now_ms: int) -> Grouper:
        grouper = Grouper(self._rules)
        known: dict[str, OpenMail] = {}
        still_open = select(mails).where(
            mails.c.state == MailState.OPEN, mails.c.window_ends_ms > now_ms
        )
        for row in connection.execute(still_open):
            known[row.id] = _open_mail(row)
        open_mails = list(known.values())
        oldest = now_ms - self._rules.dedupe_window_ms
        recent = (
            select(alerts.c.dedupe_key, alerts.c.received_ms, mails)
            .join(mails, mails.c.id == alerts.c.mail_id)
            .where(
                alerts.c.received_ms > oldest,
                alerts.c.dedupe_key.is_not(None),
                alerts.c.duplicate.is_(False),
            )
            .order_by(alerts.c.received_ms)
        )
        keys = [
            (row.dedupe_key, row.received_ms, known.setdefault(row.id, _open_mail(row)))
            for row in connection.execute(recent)
        ]
        grouper.restore(open_mails, keys)
        return grouper

    def _write(
        self, connection: Connection, grouper: Grouper, batch: Sequence[Incoming], now_ms: int
    ) -> None:
        rows: list[dict[str, Any]] = []
        changes: dict[str, _Change] = {}
        for incoming in batch:
            alert = incoming.alert
            if isinstance(alert, InvalidAlertError):
                rows.append(_invalid_row(incoming, alert, now_ms))
                continue
            recipients = self._recipients(alert)
            if not recipients:
                error = InvalidAlertError("no recipients: no routing rule matches")
                rows.append(_invalid_row(incoming, error, now_ms))
                continue
            placement = grouper.place(alert, recipients, now_ms)
            change = changes.get(placement.mail.id)
            if change is None:
                change = changes[placement.mail.id] = _Change(placement.mail, placement.is_new)
            change.count += 1
            change.duplicates += placement.is_duplicate
            change.severity = max(change.severity, alert.severity)
            change.times.append(alert.time_ms)
            rows.append(
                _alert_row(incoming, alert, change, now_ms, duplicate=placement.is_duplicate)
            )
        for change in changes.values():
            self._apply(connection, grouper, change, now_ms)
        for row in rows:
            change_or_none = row.pop("change")
            row["mail_id"] = None if change_or_none is None else change_or_none.mail.id
        if rows:
            connection.execute(insert(alerts), rows)

    def _apply(
        self, connection: Connection, grouper: Grouper, change: _Change, now_ms: int
    ) -> None:
        """Make the mail, or count up the one there is."""
        if not change.is_new:
            touched = connection.execute(
                update(mails)
                .where(
                    mails.c.id == change.mail.id,
                    # Duplicates also count towards a mail that is closed.
                    (mails.c.state == MailState.OPEN)
                    if change.duplicates < change.count
                    else (mails.c.id == change.mail.id),
                )
                .values(
                    alert_count=mails.c.alert_count + change.count,
                    duplicate_count=mails.c.duplicate_count + change.duplicates,
                    severity=_larger(mails.c.severity, change.severity),
                    first_time_ms=_smaller(mails.c.first_time_ms, min(change.times)),
                    last_time_ms=_larger(mails.c.last_time_ms, max(change.times)),
                )
            )
            if touched.rowcount:
                return
            # Somebody closed it in the meantime: these alerts open the next one.
            grouper.closed(change.mail)
            window_ends_ms = now_ms + self._rules.window_ms
            change.mail.id, change.mail.window_ends_ms = uuid4().hex, window_ends_ms
            grouper.restore([change.mail], [])
        subject, recipients = change.mail.key
        connection.execute(
            insert(mails).values(
                id=change.mail.id,
                state=MailState.OPEN,
                subject=subject,
                recipients="\n".join(recipients),
                remaining="\n".join(recipients),
                severity=change.severity,
                alert_count=change.count,
                duplicate_count=change.duplicates,
                first_time_ms=min(change.times),
                last_time_ms=max(change.times),
                created_ms=now_ms,
                window_ends_ms=change.mail.window_ends_ms,
            )
        )


def purge(
    database: Database,
    *,
    sent_before_ms: int | None = None,
    failed_before_ms: int | None = None,
) -> int:
    """Remove finished mails with their alerts, and old records that were no alerts."""
    removed = 0
    for state, before_ms in (
        (MailState.SENT, sent_before_ms),
        (MailState.FAILED, failed_before_ms),
    ):
        if before_ms is None:
            continue
        with database.write("normal") as connection:
            old = select(mails.c.id).where(mails.c.state == state, mails.c.finished_ms < before_ms)
            removed += connection.execute(delete(alerts).where(alerts.c.mail_id.in_(old))).rowcount
            connection.execute(
                delete(mails).where(mails.c.state == state, mails.c.finished_ms < before_ms)
            )
    if sent_before_ms is not None:
        with database.write("normal") as connection:
            removed += connection.execute(
                delete(alerts).where(
                    alerts.c.mail_id.is_(None), alerts.c.received_ms < sent_before_ms
                )
            ).rowcount
    return removed


def _without_known(connection: Connection, batch: Sequence[Incoming]) -> list[Incoming]:
    """The records that are not in the database: after a crash some come a second time."""
    spans: dict[tuple[str, int], list[int]] = defaultdict(list)
    for incoming in batch:
        spans[incoming.topic, incoming.partition].append(incoming.offset)
    known: set[tuple[str, int, int]] = set()
    for (topic, partition), offsets in spans.items():
        found = connection.execute(
            select(alerts.c.offset).where(
                alerts.c.topic == topic,
                alerts.c.partition == partition,
                alerts.c.offset.between(min(offsets), max(offsets)),
            )
        )
        known.update((topic, partition, offset) for offset in found.scalars())
    new = []
    for incoming in batch:
        place = (incoming.topic, incoming.partition, incoming.offset)
        if place not in known:
            known.add(place)
            new.append(incoming)
    return new


def _alert_row(
    incoming: Incoming, alert: Alert, change: _Change, now_ms: int, *, duplicate: bool
) -> dict[str, Any]:
    return {
        "topic": incoming.topic,
        "partition": incoming.partition,
        "offset": incoming.offset,
        "change": change,
        "subject": alert.subject,
        "body": alert.body,
        "severity": int(alert.severity),
        "dedupe_key": alert.dedupe_key,
        "duplicate": duplicate,
        "time_ms": alert.time_ms,
        "received_ms": now_ms,
        "error": None,
    }


def _invalid_row(incoming: Incoming, error: InvalidAlertError, now_ms: int) -> dict[str, Any]:
    alert = incoming.alert
    text = incoming.raw[:_KEPT_OF_INVALID].decode(errors="replace").replace("\0", "\ufffd")
    return {
        "topic": incoming.topic,
        "partition": incoming.partition,
        "offset": incoming.offset,
        "change": None,
        "subject": alert.subject if isinstance(alert, Alert) else "",
        "body": text,
        "severity": int(alert.severity if isinstance(alert, Alert) else Severity.ERROR),
        "dedupe_key": None,
        "duplicate": False,
        "time_ms": alert.time_ms if isinstance(alert, Alert) else now_ms,
        "received_ms": now_ms,
        "error": str(error),
    }


def _open_mail(row: Any) -> OpenMail:
    return OpenMail(row.id, (row.subject, tuple(row.recipients.split("\n"))), row.window_ends_ms)


def _larger(column: Any, value: int) -> Any:
    return case((column < value, value), else_=column)


def _smaller(column: Any, value: int) -> Any:
    return case((column > value, value), else_=column)
