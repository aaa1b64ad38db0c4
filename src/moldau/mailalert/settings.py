"""The settings file, in TOML. A mistake is explained with its place and a suggestion.

    recipients = ["ops@example.org"]

    [mail]
    host = "smtp.example.org"
    sender = "alerts@example.org"

Everything else has a default; ``moldau mailalert run`` without a file reads from a broker on this
machine and mails to a server on this machine.
"""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from moldau.config.option import ConfigError
from moldau.mailalert.settings_check import WrongSettingError, check
from moldau.mailalert.settings_tables import (
    DatabaseTable,
    DigestTable,
    HttpTable,
    MailTable,
    QueueTable,
    RouteTable,
    Settings,
    WatchTable,
)
from moldau.toml_places import line_of, places


def load_settings(path: Path | None) -> Settings:
    """Read and check a file; ``ConfigError`` names the file, the line and what is wrong there."""
    if path is None:
        return parse_settings({})
    try:
        text = path.read_text()
        table = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return parse_settings(table)
    except WrongSettingError as error:
        steps = (int(step) if step.isdigit() else step for step in _STEP.findall(error.place))
        raise ConfigError(f"{path}:{line_of(tuple(steps), places(text))}: {error}") from None


def parse_settings(table: dict[str, Any]) -> Settings:
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise _explained(str(error)) from None
    check(settings)
    return settings


_STEP: Final = re.compile(r"[^.\[\]]+")
_AT: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.+)`")
_TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "": Settings,
    "queue": QueueTable,
    "mail": MailTable,
    "digest": DigestTable,
    "database": DatabaseTable,
    "http": HttpTable,
    "routes": RouteTable,
    "watch": WatchTable,
}


def _explained(text: str) -> WrongSettingError:
    """The library's sentence, in the words of the file."""
    match = _AT.fullmatch(text)
    message, place = (match[1], match[2] or "") if match else (text, "")
    unknown = _UNKNOWN.fullmatch(message)
    if unknown is None:
        message = message.replace("`", "").replace("Object missing required field", "it needs")
        return WrongSettingError(place, f"{place}: {message}" if place else message)
    name, table = unknown[1], re.sub(r"\[.*\]", "", place)
    known = [field.name for field in msgspec.structs.fields(_TABLES[table])]
    close = get_close_matches(name, known, n=1)
    where = f" in [{table}]" if table else ""
    hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(known)}."
    full = f"{place}.{name}" if place else name
    return WrongSettingError(full, f"{name!r} is not a setting{where}.{hint}")
