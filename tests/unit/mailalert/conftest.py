"""Databases for the tests: each test that uses ``database`` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
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


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables, to be copied, for the same reason."""
    path = tmp_path_factory.mktemp("mailalert") / "alerts.db"
    made = Database(f"sqlite:///{path}")
    made.migrate()
    made.close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        file = shutil.copy(request.getfixturevalue("empty_sqlite"), tmp_path / "alerts.db")
        opened = Database(f"sqlite:///{file}")
    else:
        opened = Database(request.getfixturevalue("postgres_url"))
        with opened.write() as connection:
            connection.execute(text("TRUNCATE alerts, mails"))
    yield opened
    opened.close()
