"""Opening the database: SQLite by default, PostgreSQL by its URL; migrations run on the way.

SQLite is told to be safe and not to fail when two threads write: a write-ahead log, transactions
that take the write lock at their start, and waiting instead of an error. What stores alerts syncs
on every commit, because a committed offset depends on it. What notes that a mail went out does not:
after a power cut such a mail may go out again, with the same Message-ID.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from moldau.config.option import ConfigError
from moldau.extras import how_to_install

Durability = Literal["full", "normal"]

DEFAULT_URL: Final = "sqlite:///mailalert.db"


class Database:
    """Connections to one database. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        if self.url.drivername == "postgresql":
            # Not SQLAlchemy's default, which is an older driver: the one that the extra installs.
            self.url = self.url.set(drivername="postgresql+psycopg")
        try:
            self._engines: dict[Durability, Engine] = {
                "full": _engine(self.url, "FULL"),
                "normal": _engine(self.url, "NORMAL"),
            }
        except ModuleNotFoundError as error:
            hint = f" ({how_to_install('postgresql')})" if error.name == "psycopg" else ""
            raise ConfigError(f"database.url needs the package {error.name}{hint}") from None

    @property
    def is_shared(self) -> bool:
        """Whether other processes may run the application on the same database."""
        return self.url.get_backend_name() != "sqlite"

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables up to date; harmless when they are."""
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        try:
            with self._engines["full"].begin() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, revision)
        except DBAPIError as error:
            where = self.url.render_as_string(hide_password=True)
            raise ConfigError(f"the database {where} cannot be used: {error.orig}") from error

    @contextmanager
    def write(self, durability: Durability = "full") -> Iterator[Connection]:
        """A transaction that is committed when the block ends without an error."""
        with self._engines[durability].begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        engine = self._engines["normal"].execution_options(read_only=True)
        with engine.begin() as connection:
            yield connection

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def __repr__(self) -> str:
        return f"Database({self.url.render_as_string(hide_password=True)!r})"


def _engine(url: URL, synchronous: str) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": 60, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where we say, see below
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get("read_only", False)
        # A transaction that reads first and then wants to write could only fail; one that takes
        # the lock at once waits for its turn.
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine
