"""Runs the migrations on the connection that the application hands over."""

from __future__ import annotations

from alembic import context

from moldau.mailalert.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter a table in place
    version_table="moldau_mailalert_version",
)
with context.begin_transaction():
    context.run_migrations()
