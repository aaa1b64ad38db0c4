"""Changing settings: what both ways of altering have in common.

The controller decides. A broker's own settings are checked here first, by the one that knows what
its file says; its loggers are its own business altogether.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from moldau.broker.broker import Broker
from moldau.broker.config_resources import check_altered_broker, check_altered_loggers
from moldau.broker.loggers import alter_loggers
from moldau.config.altering.validation import validate_broker_update
from moldau.config.options.broker import BrokerOptions
from moldau.config.types import ResourceType
from moldau.controller import ConfigAlteration, ConfigResult
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

A = TypeVar("A")

_REPEATED: Final = ConfigResult(
    error=ErrorCode.INVALID_REQUEST, message="Each resource must appear at most once."
)


class Resource(Protocol):
    """What both requests say of a resource."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


async def alter_configs(
    broker: Broker, alterations: Sequence[ConfigAlteration], *, validate_only: bool
) -> list[ConfigResult]:
    """Returns one result per alteration, in order."""
    mentions = Counter(map(_resource, alterations))
    local = [
        _REPEATED
        if mentions[_resource(alteration)] > 1
        else _decide_here(broker, alteration, validate_only)
        for alteration in alterations
    ]
    forwarded = [
        alteration for alteration, result in zip(alterations, local, strict=True) if result is None
    ]
    decided: list[ConfigResult] = []
    if forwarded:  # loggers are needed most while there is no controller
        try:
            decided = await broker.controller.alter_configs(forwarded, validate_only=validate_only)
        except KafkaError as error:
            # What was decided here stays true.
            decided = [ConfigResult(error=error.code, message=error.message)] * len(forwarded)
    rest = iter(decided)
    return [next(rest) if result is None else result for result in local]


def _resource(alteration: ConfigAlteration) -> tuple[int, str]:
    return alteration.resource_type, alteration.resource_name


def _decide_here(
    broker: Broker, alteration: ConfigAlteration, validate_only: bool
) -> ConfigResult | None:
    """Returns what this broker decides; None leaves it to the controller."""
    try:
        if alteration.resource_type == ResourceType.BROKER:
            _check_broker_settings(broker, alteration)
        elif alteration.resource_type == ResourceType.BROKER_LOGGER and not alteration.replaces_all:
            check_altered_loggers(broker.node_id, alteration.resource_name)
            alter_loggers(alteration.changes, validate_only=validate_only)
            return ConfigResult()
    except KafkaError as error:
        return ConfigResult(error=error.code, message=error.message)
    return None


def _check_broker_settings(broker: Broker, alteration: ConfigAlteration) -> None:
    name, config = alteration.resource_name, broker.config
    if name:
        check_altered_broker(broker.node_id, name)
    stored = config.broker_dynamic if name else config.cluster_dynamic
    settings = alteration.apply(BrokerOptions.table, stored)
    validate_broker_update(config, settings, per_broker=bool(name))


def resource_results(
    kind: type[A], resources: Sequence[Resource], results: Sequence[ConfigResult | KafkaError]
) -> tuple[A, ...]:
    """Returns the answer for each resource, as messages of this ``kind``."""
    return tuple(
        make(
            kind,
            error_code=result.code if isinstance(result, KafkaError) else result.error,
            error_message=result.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, result in zip(resources, results, strict=True)
    )
