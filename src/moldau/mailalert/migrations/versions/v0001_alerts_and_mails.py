"""Alerts, mails, and the view that gives an alert its state."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mails",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("recipients", sa.Text, nullable=False),
        sa.Column("remaining", sa.Text, nullable=False),
        sa.Column("severity", sa.Integer, nullable=False),
        sa.Column("alert_count", sa.Integer, nullable=False),
        sa.Column("duplicate_count", sa.Integer, nullable=False),
        sa.Column("first_time_ms", sa.BigInteger, nullable=False),
        sa.Column("last_time_ms", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("window_ends_ms", sa.BigInteger, nullable=False),
        sa.Column("message_id", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("next_attempt_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("lease_ends_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("handed_over_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("finished_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("error", sa.Text),
    )
    op.create_index("mails_to_close", "mails", ["state", "window_ends_ms"])
    op.create_index("mails_to_send", "mails", ["state", "next_attempt_ms"])
    op.create_index("mails_finished", "mails", ["state", "finished_ms"])
    op.create_table(
        "alerts",
        sa.Column("topic", sa.String(249), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("offset", sa.BigInteger, primary_key=True),
        sa.Column("mail_id", sa.String(32)),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("severity", sa.Integer, nullable=False),
        sa.Column("dedupe_key", sa.Text),
        sa.Column("duplicate", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("time_ms", sa.BigInteger, nullable=False),
        sa.Column("received_ms", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text),
    )
    op.create_index("alerts_of_mail", "alerts", ["mail_id", "time_ms"])
    op.create_index("alerts_by_age", "alerts", ["received_ms"])
    op.execute(
        """
        CREATE VIEW alert_states AS
        SELECT a.topic, a.partition, a."offset", a.mail_id, a.subject, a.severity, a.duplicate,
               a.time_ms, a.received_ms,
               CASE
                   WHEN a.mail_id IS NULL THEN 'invalid'
                   WHEN m.state = 'open' THEN 'received'
                   WHEN m.state IN ('ready', 'sending') THEN 'grouped'
                   ELSE m.state
               END AS state,
               COALESCE(m.attempts, 0) AS attempts,
               COALESCE(m.finished_ms, 0) AS finished_ms,
               COALESCE(a.error, m.error) AS error
        FROM alerts a LEFT JOIN mails m ON m.id = a.mail_id
        """
    )


def downgrade() -> None:
    op.execute("DROP VIEW alert_states")
    op.drop_table("alerts")
    op.drop_table("mails")
