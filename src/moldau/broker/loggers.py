"""The loggers of this process as settings of the broker: levels read and changed while it runs.

Levels have Kafka's names (KIP-412). A change takes effect at once and is not stored: the next start
begins with the levels that its command line gives.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from typing import Final

from moldau.config.altering.operations import Alteration, AlterOperation, check_alterations
from moldau.config.describing.entry import ConfigEntry, ConfigSource
from moldau.config.option import ConfigError
from moldau.config.types import ConfigType
from moldau.errors import invalid_request

log = logging.getLogger(__name__)

ROOT: Final = "root"

LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,
}
"""Kafka's levels as Python's, the least talkative first; Python has nothing below DEBUG."""


def describe_loggers(names: Container[str] | None = None) -> list[ConfigEntry]:
    """The level that holds for each logger, its own or inherited; ``names`` restricts the
    answer.
    """
    return [
        ConfigEntry(
            name,
            _level_name(logging.getLogger(name).getEffectiveLevel()),
            ConfigSource.BROKER_LOGGER,
            ConfigType.UNKNOWN,
            read_only=False,
            sensitive=False,
            synonyms=(),
            documentation="",
        )
        for name in _known_names()
        if names is None or name in names
    ]


def alter_loggers(changes: Sequence[Alteration], *, validate_only: bool) -> None:
    """Set levels, or delete them so that they are inherited: all or, if one is wrong, none."""
    check_alterations(changes)
    for change in changes:
        _check(change)
    if validate_only:
        return
    for name, operation, value in changes:
        level = value if operation == AlterOperation.SET else None
        logging.getLogger(name).setLevel(LEVELS[level] if level else logging.NOTSET)
        log.warning("the log level of %s is now %s", name, level or "inherited")


def _check(change: Alteration) -> None:
    name, operation, level = change
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        known = operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT)
        what = AlterOperation(operation).name if known else f"Unknown type {operation}"
        raise invalid_request(f"{what} operation is not allowed for the BROKER_LOGGER resource")
    if name not in _known_names():
        raise ConfigError(f"Logger {name} does not exist!")
    if operation == AlterOperation.DELETE:
        if name == ROOT:
            raise invalid_request("Removing the log level of the root logger is not allowed")
    elif level not in LEVELS:
        raise ConfigError(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )


def _known_names() -> list[str]:
    """All loggers, and the packages that they are in: the level of one holds for all within."""
    return [ROOT, *sorted(logging.root.manager.loggerDict)]


def _level_name(level: int) -> str:
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")
