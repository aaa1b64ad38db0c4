"""Connections to PostgreSQL whose text form of values is always the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.extras import how_to_install
from moldau.spark.addresses import HINT
from moldau.spark.changes.options import ChangesError, DatabaseAwayError

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

_SETTINGS: Final = (
    "SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'iso_8601'; "
    "SET TimeZone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 1"
)
_PATIENCE: Final = 60.0
"""For a slot that somebody else reads: the server notices late that a reader was killed."""
_PAUSE: Final = 0.2


def connect(url: str, timeout: float = 10.0) -> Connection[tuple[Any, ...]]:
    """Each statement is its own transaction."""
    try:
        import psycopg
    except ImportError:
        raise ChangesError(
            f"option url: PostgreSQL needs psycopg: {how_to_install('postgresql')}"
        ) from None
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # What libpq says has the word in it that it cannot read, which may be the password.
        raise ChangesError(f"option url: libpq cannot read the address: {HINT}") from None
    with telling():
        connection = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=max(2, int(timeout)),
            application_name="moldau_changes",
        )
        connection.execute(_SETTINGS)
        return connection


@contextmanager
def connected(url: str, timeout: float = 10.0) -> Iterator[Connection[tuple[Any, ...]]]:
    """Closed whatever happens: psycopg would wait for a COPY that an exception has interrupted."""
    connection = connect(url, timeout)
    try:
        with telling():
            yield connection
    finally:
        connection.close()


@contextmanager
def telling() -> Iterator[None]:
    """What PostgreSQL says, in one line and with the option that it is about."""
    import psycopg

    try:
        yield
    except psycopg.OperationalError as error:
        raise DatabaseAwayError(f"option url: {first_line(error)}") from error
    except psycopg.Error as error:
        raise ChangesError(f"option dbtable: {first_line(error)}") from error


def when_free(run: Callable[[], T]) -> T:
    """What uses a slot, as soon as nobody else does."""
    from psycopg.errors import ObjectInUse

    end = monotonic() + _PATIENCE
    while True:
        try:
            return run()
        except ObjectInUse:
            if monotonic() > end:
                raise
            sleep(_PAUSE)


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
