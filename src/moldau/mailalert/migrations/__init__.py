"""Alembic migrations of the alert database; ``database.migrate`` runs them."""
