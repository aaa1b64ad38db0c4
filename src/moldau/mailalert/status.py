"""What the status page, the metrics and ``moldau mailalert status`` show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from moldau.mailalert.database import Database
from moldau.mailalert.schema import alert_states, alerts, mails
from moldau.mailalert.states import ALERT_STATES, AlertState, MailState


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """Counts from the database."""

    alerts: dict[str, int]
    mails: dict[str, int]
    oldest_waiting_ms: int | None
    """When the mail was complete that waits longest to be sent."""
    sent_last_minute: int
    last_errors: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class MailListing:
    id: str
    state: str
    subject: str
    recipients: str
    severity: int
    alert_count: int
    attempts: int
    created_ms: int
    finished_ms: int
    error: str | None


def read_status(database: Database, now_ms: int) -> StoredStatus:
    with database.read() as connection:
        by_alert_state = {state.value: 0 for state in AlertState}
        # Per mail, not per alert: an alert's state is its mail's, and there are far fewer mails.
        counted = select(mails.c.state, func.count(), func.sum(mails.c.alert_count))
        by_mail_state = {state.value: 0 for state in MailState}
        for state, mail_count, alert_count in connection.execute(counted.group_by(mails.c.state)):
            by_mail_state[state] = mail_count
            by_alert_state[_of_alerts(state)] += int(alert_count)
        invalid = select(func.count()).select_from(alerts).where(alerts.c.mail_id.is_(None))
        by_alert_state[AlertState.INVALID.value] = connection.execute(invalid).scalar_one()
        oldest = connection.execute(
            select(func.min(mails.c.window_ends_ms)).where(
                mails.c.state.in_([MailState.READY, MailState.SENDING])
            )
        ).scalar_one()
        recent = connection.execute(
            select(func.count()).where(
                mails.c.state == MailState.SENT, mails.c.finished_ms > now_ms - 60_000
            )
        ).scalar_one()
        errors = connection.execute(
            select(mails.c.id, mails.c.state, mails.c.subject, mails.c.attempts, mails.c.error)
            .where(mails.c.error.is_not(None), mails.c.state != MailState.SENT)
            .order_by(mails.c.next_attempt_ms.desc())
            .limit(10)
        )
        return StoredStatus(
            by_alert_state,
            by_mail_state,
            oldest,
            recent,
            [dict(row) for row in errors.mappings()],
        )


def list_mails(
    database: Database, *, state: MailState | None = None, limit: int = 50
) -> list[MailListing]:
    """The newest first."""
    wanted = select(*(getattr(mails.c, name) for name in MailListing.__slots__))
    if state is not None:
        wanted = wanted.where(mails.c.state == state)
    with database.read() as connection:
        rows = connection.execute(wanted.order_by(mails.c.created_ms.desc()).limit(limit))
        return [MailListing(*row) for row in rows]


def list_alerts(
    database: Database, *, state: AlertState | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """The newest first, each with its state."""
    wanted = select(alert_states)
    if state is not None:
        wanted = wanted.where(alert_states.c.state == state)
    with database.read() as connection:
        rows = connection.execute(wanted.order_by(alert_states.c.received_ms.desc()).limit(limit))
        return [dict(row) for row in rows.mappings()]


def _of_alerts(mail_state: str) -> str:
    return ALERT_STATES[MailState(mail_state)].value
