"""Rows out of a database, through the driver: no jar is needed."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def read_query(url: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of columns, and rows."""
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            found = connection.execute(sa.text(query))
            return list(found.keys()), [tuple(row) for row in found]
    finally:
        engine.dispose()
