"""What the operations of a request make of the settings stored for a topic, broker or group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.config.option import AnyOption, ConfigError
from moldau.config.types import ConfigType
from moldau.errors import invalid_request


class AlterOperation(IntEnum):
    """What to do with a setting, numbered as IncrementalAlterConfigs sends it."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One operation of a request; ``operation`` is the number that came over the wire."""

    name: str
    operation: int
    value: str | None


def apply_incremental(
    options: Mapping[str, AnyOption], current: Mapping[str, str], changes: Sequence[Alteration]
) -> dict[str, str]:
    """The settings after the operations; ``options`` is the table of the resource's kind.

    Raises ``KafkaError`` with INVALID_REQUEST for a malformed request, and with INVALID_CONFIG for
    list operations on something that is not a list.
    """
    check_alterations(changes)
    settings = dict(current)
    for name, operation, value in changes:
        if operation == AlterOperation.DELETE:
            settings.pop(name, None)
        elif operation == AlterOperation.SET:
            settings[name] = value or ""
        elif operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            settings[name] = _alter_list(
                options, settings, name, AlterOperation(operation), value or ""
            )
        else:
            raise invalid_request(f"Unknown operation {operation} for configuration {name}")
    return settings


def check_alterations(changes: Sequence[Alteration]) -> None:
    """Raise ``KafkaError`` with INVALID_REQUEST for a name given twice or a missing value."""
    _check_names([change.name for change in changes])
    missing = [
        change.name
        for change in changes
        if change.value is None and change.operation != AlterOperation.DELETE
    ]
    if missing:
        raise invalid_request(f"Null value not supported for : {', '.join(missing)}")


def apply_replacement(settings: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The settings after AlterConfigs, which replaces all of them."""
    _check_names([name for name, _ in settings])
    missing = [name for name, value in settings if value is None]
    if missing:
        raise invalid_request(f"Null value not supported for : {', '.join(missing)}")
    return {name: value or "" for name, value in settings}


def _alter_list(
    options: Mapping[str, AnyOption],
    settings: Mapping[str, str],
    name: str,
    operation: AlterOperation,
    value: str,
) -> str:
    option = options.get(name)
    if option is None or option.type is not ConfigType.LIST:
        raise ConfigError(f"Can't {operation.name} to key {name} because its type is not LIST.")
    stored = settings.get(name)
    text = option.format(option.default) if stored is None else stored
    items = [item.strip() for item in (text or "").split(",") if item.strip()]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation is AlterOperation.APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise invalid_request("Error due to duplicate config keys")
