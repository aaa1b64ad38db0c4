"""Databases for the tests: each test that uses ``database`` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.support.postgres import Postgres

from moldau.mailalert.database import Database


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: Postgres) -> str:
    """One database for all: making one takes longer than most tests."""
    url = postgres.url("mailalert")
    made = Database(url)
    made.migrate()
    made.close()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        opened = Database(f"sqlite:///{tmp_path}/alerts.db")
        opened.migrate()
    else:
        opened = Database(request.getfixturevalue("postgres_url"))
        with opened.write() as connection:
            connection.execute(text("TRUNCATE alerts, mails"))
    yield opened
    opened.close()
