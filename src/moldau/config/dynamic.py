"""Changes to settings while the broker runs: what AlterConfigs and its incremental form decide.

A request is a list of operations on the settings stored for one topic or broker.
``apply_incremental`` gives the settings that would be stored; ``validate_topic_configs`` or
``validate_broker_update`` then says whether they may. Nothing is stored here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.config.broker import BrokerConfig
from moldau.config.ignored import IGNORED
from moldau.config.option import AnyOption, ConfigError, ConfigType, Update
from moldau.config.tables import BROKER_OPTIONS
from moldau.errors import ErrorCode, KafkaError


class AlterOp(IntEnum):
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
    _check_names([change.name for change in changes])
    missing = [
        change.name
        for change in changes
        if change.value is None and change.operation != AlterOp.DELETE
    ]
    if missing:
        raise _invalid_request(f"Null value not supported for: {', '.join(missing)}")
    settings = dict(current)
    for name, operation, value in changes:
        if operation == AlterOp.DELETE:
            settings.pop(name, None)
        elif operation == AlterOp.SET:
            settings[name] = value or ""
        elif operation in (AlterOp.APPEND, AlterOp.SUBTRACT):
            settings[name] = _alter_list(options, settings, name, AlterOp(operation), value or "")
        else:
            raise _invalid_request(f"Unknown operation {operation} for configuration {name}")
    return settings


def apply_replacement(settings: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The settings after AlterConfigs, which replaces all of them."""
    _check_names([name for name, _ in settings])
    missing = [name for name, value in settings if value is None]
    if missing:
        raise _invalid_request(f"Null value not supported for: {', '.join(missing)}")
    return {name: value or "" for name, value in settings}


def validate_broker_update(
    config: BrokerConfig, settings: Mapping[str, str], *, per_broker: bool
) -> None:
    """Raise ``KafkaError`` (INVALID_REQUEST, as Kafka) unless these may be stored.

    ``settings`` are all that would be stored for this broker (``per_broker``) or for all brokers.
    An unknown name passes, as in Kafka, where it may belong to a plug-in.
    """
    fixed = [name for name in settings if _is_fixed(name)]
    if fixed:
        raise _invalid_request(f"Cannot update these configs dynamically: {', '.join(fixed)}")
    if not per_broker:
        local = [name for name in settings if _is_local(name)]
        if local:
            raise _invalid_request(
                "Cannot update these configs for all brokers at once, a broker id must be given: "
                f"{', '.join(local)}"
            )
    try:
        if per_broker:
            config.with_dynamic(config.cluster_dynamic, settings, strict=True)
        else:
            config.with_dynamic(settings, config.broker_dynamic, strict=True)
    except ConfigError as error:
        raise _invalid_request(error.message) from None


def _is_fixed(name: str) -> bool:
    option = BROKER_OPTIONS.get(name)
    return name in IGNORED if option is None else option.update is Update.READ_ONLY


def _is_local(name: str) -> bool:
    option = BROKER_OPTIONS.get(name)
    return option is not None and option.update is Update.PER_BROKER


def _alter_list(
    options: Mapping[str, AnyOption],
    settings: Mapping[str, str],
    name: str,
    operation: AlterOp,
    value: str,
) -> str:
    option = options.get(name)
    if option is None or option.type is not ConfigType.LIST:
        raise ConfigError(f"Can't {operation.name} to key {name} because its type is not LIST.")
    stored = settings.get(name)
    text = option.format(option.default) if stored is None else stored
    items = [item.strip() for item in (text or "").split(",") if item.strip()]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation is AlterOp.APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise _invalid_request("Error due to duplicate config keys")


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
