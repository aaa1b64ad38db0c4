"""Options of ``format("moldau_changes")``, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from moldau.durations import parse_duration_ms
from moldau.spark.addresses import HINT, is_unclear
from moldau.spark.options import OptionError

Mode = Literal["log", "column"]

_RELEASE: Final = (4, 2)
"""Of PySpark, the first whose data sources are told where a batch begins."""
_MODES: Final = ("log", "column")
_KNOWN: Final = {
    "url",
    "dbtable",
    "mode",
    "column",
    "keys",
    "lag",
    "poll",
    "snapshot",
    "slot",
    "publication",
    "maxrowspertrigger",
}
_ONLY: Final = {"log": ("slot", "publication"), "column": ("column", "lag")}
_POSTGRESQL: Final = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_MISWRITTEN: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|\s")
"""What libpq refuses, with the word that it stands in, which may be the password."""
_SLOT: Final = re.compile(r"[a-z0-9_]{1,54}")
"""As PostgreSQL has them, with room for what makes it unique."""


ANEW: Final = "to begin anew, remove the pipeline's checkpoint"


class ChangesError(Exception):
    """What keeps changes from being read, in a sentence."""


class DatabaseAwayError(ChangesError):
    """PostgreSQL cannot be reached, or has ended the connection: it may come back."""


@dataclass(frozen=True)
class ChangesOptions:
    url: str = field(repr=False)
    """As libpq takes it."""
    table: str
    mode: Mode = "log"
    column: str = ""
    keys: tuple[str, ...] = ()
    """Those of the table, if there are none."""
    lag: float = 5.0
    """Seconds."""
    poll: float = 1.0
    """Seconds between two looks at a table in which nothing happens."""
    snapshot: bool = True
    slot: str = "moldau"
    """What names of slots begin with."""
    publication: str = ""
    max_rows: int | None = None


def release_problem(installed: str) -> str | None:
    """Why changes cannot be read with the PySpark that is there."""
    if not installed or tuple(map(int, installed.split(".")[:2])) >= _RELEASE:
        return None
    wanted = ".".join(map(str, _RELEASE))
    return (
        f"changes need PySpark {wanted} or later, as older ones do not say how far a query is, and "
        f"{installed} is installed: pip install 'pyspark>={wanted}'"
    )


def changes_options(given: Mapping[str, str]) -> ChangesOptions:
    """Names are compared without regard to case, as Spark does it."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name not in _KNOWN and name != "path":
            raise OptionError(f"There is no option {name} of moldau_changes")
    for name in ("url", "dbtable"):
        if not options.get(name):
            raise OptionError(f"Option {name} is missing")
    mode = options.get("mode", "log")
    if mode not in _MODES:
        raise OptionError(f"Option mode is {mode!r}: there is log and column")
    for other, names in _ONLY.items():
        for name in names:
            if name in options and other != mode:
                raise OptionError(f"Option {name} is for mode {other}, and the mode is {mode}")
    if mode == "column" and not options.get("column"):
        raise OptionError("Mode column needs option column: one whose values grow")
    slot = options.get("slot", "moldau")
    if not _SLOT.fullmatch(slot):
        raise OptionError(
            f"Option slot is {slot!r}: names of slots are of a-z, 0-9 and _, here 54 at most"
        )
    keys = options.get("keys", "")
    return ChangesOptions(
        libpq_url(options["url"]),
        options["dbtable"],
        cast("Mode", mode),
        options.get("column", ""),
        tuple(key.strip() for key in keys.split(",") if key.strip()),
        _seconds(options, "lag", ChangesOptions.lag),
        _seconds(options, "poll", ChangesOptions.poll),
        _boolean(options, "snapshot"),
        slot,
        options.get("publication") or slot,
        _count(options, "maxrowspertrigger"),
    )


def libpq_url(url: str) -> str:
    """SQLAlchemy's addresses have the driver in them."""
    if not _POSTGRESQL.match(url):
        scheme, _, rest = url.partition("://")
        # Anything else may have a password in it.
        of = f" is of {scheme}" if rest and scheme.isalnum() else " is no address"
        raise OptionError(
            f"Option url{of}: changes are read from PostgreSQL only, such as "
            "postgresql://user@host/name"
        )
    if is_unclear(url) or _MISWRITTEN.search(url):
        raise OptionError(f"Option url cannot be read: {HINT}")
    return _POSTGRESQL.sub("postgresql://", url, count=1)


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    if name not in options:
        return default
    try:
        return parse_duration_ms(options[name]) / 1000
    except ValueError as error:
        raise OptionError(f"Option {name}: {error}") from None


def _boolean(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "true").lower()
    if value not in ("true", "false"):
        raise OptionError(f"Option {name} is {value!r}: there is true and false")
    return value == "true"


def _count(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    value = options[name]
    if not value.isdecimal() or int(value) == 0:
        raise OptionError(f"Option maxRowsPerTrigger is {value!r}: it must be a positive number")
    return int(value)
