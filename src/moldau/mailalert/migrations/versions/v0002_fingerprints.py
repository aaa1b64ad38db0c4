"""The fingerprint of a record is part of its key: a topic made anew has the same offsets again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_KEPT = (
    'topic, "partition", "offset", mail_id, subject, body, severity, dedupe_key, duplicate, '
    "time_ms, received_ms, error"
)

_VIEW = """
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


def upgrade() -> None:
    _rebuild(sa.Column("fingerprint", sa.String(16), primary_key=True, server_default=""))


def downgrade() -> None:
    _rebuild()


def _rebuild(*more: sa.Column[str]) -> None:
    """SQLite cannot change a key in place, so both databases get a new table."""
    op.execute("DROP VIEW alert_states")
    op.create_table(
        "alerts_new",
        sa.Column("topic", sa.String(249), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("offset", sa.BigInteger, primary_key=True),
        *more,
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
    op.execute(f"INSERT INTO alerts_new ({_KEPT}) SELECT {_KEPT} FROM alerts")  # noqa: S608
    op.drop_table("alerts")
    op.rename_table("alerts_new", "alerts")
    op.create_index("alerts_of_mail", "alerts", ["mail_id", "time_ms"])
    op.create_index("alerts_by_age", "alerts", ["received_ms"])
    op.execute(_VIEW)
