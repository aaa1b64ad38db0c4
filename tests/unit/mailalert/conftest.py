"""Databases for the tests: each test that uses ``database`` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.postgres import Postgres

from moldau.mailalert.database import Database


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/alerts.db"
    else:
        url = request.getfixturevalue("postgres").url(f"t{uuid.uuid4().hex[:12]}")
    opened = Database(url)
    opened.migrate()
    yield opened
    opened.close()
