"""The tables. Times are milliseconds since the epoch, so that both databases keep them alike.

An alert's state is its mail's: ``alert_states`` is the view that says so, and nothing has to be
kept in step. Changes to this file need a migration in ``migrations/versions``.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata: Final = MetaData()

mails: Final = Table(
    "mails",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("state", String(10), nullable=False),
    Column("subject", Text, nullable=False),
    Column("recipients", Text, nullable=False, comment="one address a line, sorted"),
    Column("remaining", Text, nullable=False, comment="the addresses that have not accepted yet"),
    Column("severity", Integer, nullable=False, comment="the worst of its alerts"),
    Column("alert_count", Integer, nullable=False),
    Column("duplicate_count", Integer, nullable=False),
    Column("first_time_ms", BigInteger, nullable=False),
    Column("last_time_ms", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("window_ends_ms", BigInteger, nullable=False),
    Column("message_id", Text, comment="given before the first attempt, kept for all of them"),
    Column("attempts", Integer, nullable=False, default=0),
    Column("next_attempt_ms", BigInteger, nullable=False, default=0),
    Column("lease_ends_ms", BigInteger, nullable=False, default=0),
    Column(
        "handed_over_ms",
        BigInteger,
        nullable=False,
        default=0,
        comment="when the text went to the server, until its answer is known",
    ),
    Column("finished_ms", BigInteger, nullable=False, default=0),
    Column("error", Text, comment="of the last attempt"),
    Index("mails_to_close", "state", "window_ends_ms"),
    Index("mails_to_send", "state", "next_attempt_ms"),
    Index("mails_finished", "state", "finished_ms"),
)

alerts: Final = Table(
    "alerts",
    metadata,
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column(
        "fingerprint",
        String(16),
        primary_key=True,
        comment="of the record: a topic that is made anew starts with the same offsets",
    ),
    Column("mail_id", String(32), comment="none for a record that is no alert"),
    Column("subject", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("severity", Integer, nullable=False),
    Column("dedupe_key", Text),
    Column("duplicate", Boolean, nullable=False, default=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("received_ms", BigInteger, nullable=False),
    Column("error", Text, comment="why the record is no alert"),
    Index("alerts_of_mail", "mail_id", "time_ms"),
    Index("alerts_by_age", "received_ms"),
)

alert_states: Final = Table(
    # A view, made by the first migration; here only so that queries can name it.
    "alert_states",
    MetaData(),
    Column("topic", String),
    Column("partition", Integer),
    Column("offset", BigInteger),
    Column("mail_id", String),
    Column("subject", Text),
    Column("severity", Integer),
    Column("duplicate", Boolean),
    Column("time_ms", BigInteger),
    Column("received_ms", BigInteger),
    Column("state", String),
    Column("attempts", Integer),
    Column("finished_ms", BigInteger),
    Column("error", Text),
)
