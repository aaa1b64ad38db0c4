"""The mails of the database as a work queue: closed, claimed, handed over, finished.

Before the text of a mail goes to the server, that is written down; after the answer, that as well.
So a crash leaves a mail in one of two states: certainly not sent, and it is sent after the restart;
or handed over without a known answer. SMTP has no way to ask. By default such a mail is sent again
with the same Message-ID, by which mail programs recognise a copy; it can be held back instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import make_msgid
from typing import Any, Final

from sqlalchemy import case, or_, select, update

from moldau.mailalert.database import Database
from moldau.mailalert.schema import alerts, mails
from moldau.mailalert.states import MailState

LEASE_MS: Final = 120_000
"""How long a worker may be busy with a mail before others may take it, at least."""
CLOCK_STEP_MS: Final = 60_000
"""What lies further ahead than it can was written before the clock was set back."""
CLOSE_GRACE_MS: Final = 200
"""A window's end and its last alert may be a moment apart on two machines."""

UNCERTAIN: Final = (
    "the process ended after the mail was handed to the server and before its answer was known"
)


_LONGEST_ERROR: Final = 2000


class LeaseLostError(Exception):
    """Another worker has the mail by now."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail that is complete."""

    id: str
    subject: str
    recipients: tuple[str, ...]
    """Those who have not accepted it yet."""
    severity: int
    alert_count: int
    duplicate_count: int
    first_time_ms: int
    last_time_ms: int
    message_id: str
    complete_ms: int
    """When it was ready to go for the first time."""
    attempts: int
    """Including the one that is under way."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One alert as it is shown in a mail."""

    time_ms: int
    severity: int
    body: str


class Outbox:
    """Thread-safe: every method is a transaction of its own.

    A mail's number of attempts is also the token of who has it: each claim gives a new one, and
    whoever comes with an old one, because its lease has run out, changes nothing.
    """

    def __init__(
        self,
        database: Database,
        *,
        domain: str,
        hold_uncertain: bool = False,
        lease_ms: int = LEASE_MS,
        longest_pause_ms: int = 300_000,
    ) -> None:
        self._database = database
        self._domain = domain
        self._hold_uncertain = hold_uncertain
        self._lease_ms = lease_ms
        self._longest_pause_ms = longest_pause_ms

    def close_due(self, now_ms: int, limit: int = 1000) -> int:
        """Complete the mails whose windows have ended."""
        ended = (
            select(mails.c.id)
            .where(
                mails.c.state == MailState.OPEN,
                or_(
                    mails.c.window_ends_ms <= now_ms - CLOSE_GRACE_MS,
                    mails.c.created_ms > now_ms + CLOCK_STEP_MS,
                ),
            )
            .limit(limit)
        )
        with self._database.read() as connection:
            if connection.execute(ended.limit(1)).first() is None:
                return 0
        with self._database.write("normal") as connection:
            due = connection.execute(ended.with_for_update(skip_locked=True)).scalars().all()
            for mail_id in due:
                connection.execute(
                    update(mails)
                    .where(mails.c.id == mail_id)
                    .values(
                        state=MailState.READY,
                        message_id=make_msgid(mail_id, self._domain),
                        next_attempt_ms=now_ms,
                    )
                )
        return len(due)

    def claim(self, now_ms: int, limit: int) -> list[Mail]:
        """Mails to send now, those that wait longest first; they are leased to this process."""
        too_far_ahead = now_ms + self._longest_pause_ms + CLOCK_STEP_MS
        due = (
            select(mails)
            .where(
                mails.c.state == MailState.READY,
                or_(
                    mails.c.next_attempt_ms <= now_ms,
                    mails.c.next_attempt_ms > too_far_ahead,
                ),
            )
            .order_by(mails.c.next_attempt_ms)
            .limit(limit)
        )
        with self._database.read() as connection:
            if connection.execute(due.limit(1)).first() is None:
                return []
        with self._database.write("normal") as connection:
            rows = connection.execute(due.with_for_update(skip_locked=True)).all()
            if rows:
                connection.execute(
                    update(mails)
                    .where(mails.c.id.in_([row.id for row in rows]))
                    .values(
                        state=MailState.SENDING,
                        attempts=mails.c.attempts + 1,
                        lease_ends_ms=now_ms + self._lease_ms,
                        handed_over_ms=0,
                    )
                )
        return [_mail(row) for row in rows]

    def samples(self, mail: Mail, limit: int) -> list[Sample]:
        """The first alerts of a mail, without repetitions of one dedupe key."""
        with self._database.read() as connection:
            rows = connection.execute(
                select(alerts.c.time_ms, alerts.c.severity, alerts.c.body)
                .where(alerts.c.mail_id == mail.id, alerts.c.duplicate.is_(False))
                .order_by(alerts.c.time_ms, alerts.c.offset)
                .limit(limit)
            )
            return [Sample(row.time_ms, row.severity, row.body) for row in rows]

    def handing_over(self, mail: Mail, now_ms: int) -> None:
        """The next thing that happens is that the server gets the text."""
        if not self._change(mail, handed_over_ms=now_ms, lease_ends_ms=now_ms + self._lease_ms):
            raise LeaseLostError(mail.id)

    def sent(self, mail: Mail, now_ms: int) -> None:
        """The server took it for everybody."""
        self._change(
            mail,
            state=MailState.SENT,
            remaining="",
            handed_over_ms=0,
            finished_ms=now_ms,
            error=None,
        )

    def again(self, mail: Mail, next_attempt_ms: int, error: str, remaining: Sequence[str]) -> None:
        """Try again later, for those who have not accepted it."""
        self._change(
            mail,
            state=MailState.READY,
            remaining="\n".join(remaining),
            handed_over_ms=0,
            next_attempt_ms=next_attempt_ms,
            error=_storable(error),
        )

    def give_back(self, mail: Mail, next_attempt_ms: int, error: str | None = None) -> None:
        """It was not this mail's fault: the attempt does not count."""
        self._change(
            mail,
            state=MailState.READY,
            handed_over_ms=0,
            attempts=mail.attempts - 1,
            next_attempt_ms=next_attempt_ms,
            **({} if error is None else {"error": _storable(error)}),
        )

    def failed(self, mail: Mail, now_ms: int, error: str, remaining: Sequence[str] = ()) -> None:
        """To the dead letters, for those who have not accepted it."""
        self._change(
            mail,
            state=MailState.FAILED,
            remaining="\n".join(remaining or mail.recipients),
            handed_over_ms=0,
            finished_ms=now_ms,
            error=_storable(error),
        )

    def recover(self, now_ms: int, *, alone: bool) -> int:
        """Take up what a process left behind; ``alone`` if none but this one can be running."""
        abandoned = mails.c.state == MailState.SENDING
        if not alone:
            abandoned &= mails.c.lease_ends_ms < now_ms
        with self._database.write() as connection:
            found = 0
            if self._hold_uncertain:
                found += connection.execute(
                    update(mails)
                    .where(abandoned, mails.c.handed_over_ms > 0)
                    .values(
                        state=MailState.FAILED,
                        finished_ms=now_ms,
                        handed_over_ms=0,
                        error=UNCERTAIN,
                    )
                ).rowcount
            found += connection.execute(
                update(mails)
                .where(abandoned)
                .values(
                    state=MailState.READY,
                    next_attempt_ms=now_ms,
                    handed_over_ms=0,
                    error=case((mails.c.handed_over_ms > 0, UNCERTAIN), else_=mails.c.error),
                )
            ).rowcount
        return found

    def revive(self, now_ms: int, id_begins: str = "") -> int:
        """Dead letters become ready again, with all their attempts before them."""
        chosen = mails.c.state == MailState.FAILED
        chosen &= mails.c.id.startswith(id_begins, autoescape=True)
        with self._database.write() as connection:
            return connection.execute(
                update(mails)
                .where(chosen)
                .values(
                    state=MailState.READY,
                    attempts=0,
                    window_ends_ms=now_ms,
                    next_attempt_ms=now_ms,
                    finished_ms=0,
                    handed_over_ms=0,
                )
            ).rowcount

    def _change(self, mail: Mail, **values: Any) -> bool:
        """False if somebody else has it by now, and nothing is changed."""
        with self._database.write("normal") as connection:
            changed = connection.execute(
                update(mails)
                .where(
                    mails.c.id == mail.id,
                    mails.c.state == MailState.SENDING,
                    mails.c.attempts == mail.attempts,
                )
                .values(**values)
            )
        return changed.rowcount > 0


def _storable(error: str) -> str:
    """What a server said may be anything."""
    return error[:_LONGEST_ERROR].replace("\0", "\ufffd").encode(errors="replace").decode()


def _mail(row: Any) -> Mail:
    return Mail(
        id=row.id,
        subject=row.subject,
        recipients=tuple(row.remaining.split("\n")),
        severity=row.severity,
        alert_count=row.alert_count,
        duplicate_count=row.duplicate_count,
        first_time_ms=row.first_time_ms,
        last_time_ms=row.last_time_ms,
        message_id=row.message_id,
        complete_ms=row.window_ends_ms,
        attempts=row.attempts + 1,
    )
