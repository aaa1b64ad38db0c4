"""What is written to the database and when: every step of an alert's life is one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, bindparam, case, delete, insert, select, tuple_, update

from moldau.mailalert.alert import Alert, InvalidAlertError, Severity
from moldau.mailalert.database import Database
from moldau.mailalert.grouping import Grouper, GroupingRules, OpenMail
from moldau.mailalert.schema import alerts, mails
from moldau.mailalert.states import MailState

_KEPT_OF_INVALID: Final = 4096
"""Bytes of a record that is no alert, or characters of one that nobody gets, to look at."""

PURGE_AT_ONCE: Final = 500

Recipients = Callable[[Alert], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A record from the topic, decoded or found wanting."""

    topic: str
    partition: int
    offset: int
    alert: Alert | InvalidAlertError
    raw: bytes = b""
    fingerprint: str = ""


def fingerprint(timestamp_ms: int, value: bytes) -> str:
    """Returns what tells a record from one at its place in a topic that was made anew."""
    return blake2b(b"%d " % timestamp_ms + value, digest_size=8).hexdigest()


@dataclass(slots=True)
class _Change:
    """What a batch of alerts does to one mail."""

    mail: OpenMail
    is_new: bool
    count: int = 0
    duplicates: int = 0
    severity: int = 0
    times: list[int] = field(default_factory=list)

    def as_parameters(self) -> dict[str, Any]:
        return {
            "mail": self.mail.id,
            "more": self.count,
            "repeated": self.duplicates,
            "worst": self.severity,
            "first": min(self.times),
            "last": max(self.times),
        }


def _larger(column: Any, name: str) -> Any:
    return case((column < bindparam(name), bindparam(name)), else_=column)


_COUNT_UP: Final = (
    update(mails)
    .where(mails.c.id == bindparam("mail"))
    .values(
        alert_count=mails.c.alert_count + bindparam("more"),
        duplicate_count=mails.c.duplicate_count + bindparam("repeated"),
        severity=_larger(mails.c.severity, "worst"),
        first_time_ms=case(
            (mails.c.first_time_ms > bindparam("first"), bindparam("first")),
            else_=mails.c.first_time_ms,
        ),
        last_time_ms=_larger(mails.c.last_time_ms, "last"),
    )
)
"""One statement for all mails of a batch: a burst touches hundreds at a time."""


class AlertStore:
    """Stores alerts and places them into mails. Used by one thread."""

    def __init__(self, database: Database, rules: GroupingRules, recipients: Recipients) -> None:
        self._database = database
        self._rules = rules
        self._recipients = recipients
        self._grouper: Grouper | None = None

    def store(self, batch: Sequence[Incoming], now_ms: int) -> int:
        """Store what is not stored yet, in one transaction; returns how many were new.

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
            try:
                recipients = self._recipients(alert)
                if not recipients:
                    raise InvalidAlertError("no recipients: no routing rule matches")
            except InvalidAlertError as error:
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
        self._apply(connection, grouper, list(changes.values()), now_ms)
        for row in rows:
            change_or_none = row.pop("change")
            row["mail_id"] = None if change_or_none is None else change_or_none.mail.id
            if change_or_none is not None and not change_or_none.duplicates:
                row["duplicate"] = False
        if rows:
            connection.execute(insert(alerts), rows)

    def _apply(
        self, connection: Connection, grouper: Grouper, changes: list[_Change], now_ms: int
    ) -> None:
        """Make the new mails, and count up those there are."""
        for change in changes:
            if not change.is_new and not _still_takes(connection, change):
                # Somebody closed it in the meantime: these alerts open the next one.
                if change.duplicates == change.count:
                    change.duplicates = 0  # what they repeat is gone, so they are told as news
                grouper.closed(change.mail)
                change.mail.id = uuid4().hex
                change.mail.window_ends_ms = now_ms + self._rules.window_ms
                grouper.restore([change.mail], [])
                change.is_new = True
        new = [_mail_row(change, now_ms) for change in changes if change.is_new]
        if new:
            connection.execute(insert(mails), new)
        known = [change.as_parameters() for change in changes if not change.is_new]
        if known:
            connection.execute(_COUNT_UP, known)


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
        if before_ms is not None:
            old = mails.c.state == state, mails.c.finished_ms < before_ms
            removed += _in_steps(partial(_purge_mails, database, old))
    if sent_before_ms is not None:
        removed += _in_steps(partial(_purge_invalid, database, sent_before_ms))
    return removed


def _in_steps(step: Callable[[], tuple[bool, int]]) -> int:
    """Small transactions: those who store alerts and send mails get their turns in between."""
    removed, more = 0, True
    while more:
        more, count = step()
        removed += count
    return removed


def _purge_mails(database: Database, old: Sequence[Any]) -> tuple[bool, int]:
    with database.write("normal") as connection:
        chosen = select(mails.c.id).where(*old).limit(PURGE_AT_ONCE)
        ids = connection.execute(chosen.with_for_update(skip_locked=True)).scalars().all()
        count = connection.execute(delete(alerts).where(alerts.c.mail_id.in_(ids))).rowcount
        connection.execute(delete(mails).where(mails.c.id.in_(ids)))
    return len(ids) == PURGE_AT_ONCE, count


def _purge_invalid(database: Database, before_ms: int) -> tuple[bool, int]:
    with database.write("normal") as connection:
        key = alerts.c.topic, alerts.c.partition, alerts.c.offset, alerts.c.fingerprint
        old = alerts.c.mail_id.is_(None), alerts.c.received_ms < before_ms
        chosen = select(*key).where(*old).limit(PURGE_AT_ONCE)
        count = connection.execute(delete(alerts).where(tuple_(*key).in_(chosen))).rowcount
    return count == PURGE_AT_ONCE, count


def _without_known(connection: Connection, batch: Sequence[Incoming]) -> list[Incoming]:
    """The records that are not in the database: after a crash some come a second time."""
    spans: dict[tuple[str, int], list[int]] = defaultdict(list)
    for incoming in batch:
        spans[incoming.topic, incoming.partition].append(incoming.offset)
    known: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    for (topic, partition), offsets in spans.items():
        found = connection.execute(
            select(alerts.c.offset, alerts.c.fingerprint).where(
                alerts.c.topic == topic,
                alerts.c.partition == partition,
                alerts.c.offset.between(min(offsets), max(offsets)),
            )
        )
        for row in found:
            known[topic, partition, row.offset].add(row.fingerprint)
    new = []
    for incoming in batch:
        here = known[incoming.topic, incoming.partition, incoming.offset]
        # Rows of before there were fingerprints have none: then the place alone counts.
        if not here & {incoming.fingerprint, ""}:
            here.add(incoming.fingerprint)
            new.append(incoming)
    return new


def _still_takes(connection: Connection, change: _Change) -> bool:
    """Returns whether the mail is open; repetitions alone count towards a closed one as well."""
    wanted = select(mails.c.state).where(mails.c.id == change.mail.id).with_for_update()
    state = connection.execute(wanted).scalar()
    if change.duplicates == change.count:
        return state is not None  # it may have been purged
    return bool(state == MailState.OPEN)


def _mail_row(change: _Change, now_ms: int) -> dict[str, Any]:
    subject, recipients = change.mail.key
    return {
        "id": change.mail.id,
        "state": MailState.OPEN,
        "subject": subject,
        "recipients": "\n".join(recipients),
        "remaining": "\n".join(recipients),
        "severity": change.severity,
        "alert_count": change.count,
        "duplicate_count": change.duplicates,
        "first_time_ms": min(change.times),
        "last_time_ms": max(change.times),
        "created_ms": now_ms,
        "window_ends_ms": change.mail.window_ends_ms,
    }


def _alert_row(
    incoming: Incoming, alert: Alert, change: _Change, now_ms: int, *, duplicate: bool
) -> dict[str, Any]:
    return {
        "topic": incoming.topic,
        "partition": incoming.partition,
        "offset": incoming.offset,
        "fingerprint": incoming.fingerprint,
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
    if isinstance(alert, Alert):
        text = alert.body[:_KEPT_OF_INVALID]
    else:
        text = incoming.raw[:_KEPT_OF_INVALID].decode(errors="replace").replace("\0", "\ufffd")
    return {
        "topic": incoming.topic,
        "partition": incoming.partition,
        "offset": incoming.offset,
        "fingerprint": incoming.fingerprint,
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
