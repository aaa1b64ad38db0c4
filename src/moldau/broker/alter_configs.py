"""Changing settings: what both ways of altering have in common.

The controller decides. A broker's own settings are checked here first, by the one that knows what
its file says, and its listeners are opened; its loggers are its own business altogether.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, Protocol, TypeVar

import msgspec

from moldau.broker.broker import Broker
from moldau.broker.config_resources import check_altered_broker, check_altered_loggers
from moldau.broker.loggers import alter_loggers
from moldau.config.altering.validation import validate_broker_update
from moldau.config.options.broker import BrokerOptions
from moldau.config.types import ResourceType
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.endpoints import Endpoint
from moldau.controller import ConfigAlteration, ConfigResult
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

A = TypeVar("A")

MOST_SETTINGS: Final = 1000
"""Of one resource in one request: five times as many as there are options."""

_REPEATED: Final = ConfigResult(
    error=ErrorCode.INVALID_REQUEST, message="Each resource must appear at most once."
)


_TOO_MANY: Final = ConfigResult(
    error=ErrorCode.INVALID_REQUEST,
    message=f"A resource has at most {MOST_SETTINGS} settings in one request.",
)


class Resource(Protocol):
    """What both requests say of a resource."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


async def alter_configs(
    broker: Broker,
    alterations: Sequence[ConfigAlteration | ConfigResult],
    *,
    validate_only: bool,
) -> list[ConfigResult]:
    """Returns one result per alteration, in order; some may have been decided already."""
    mentions = Counter(
        _resource(each) for each in alterations if isinstance(each, ConfigAlteration)
    )
    async with AsyncExitStack() as while_undecided:
        local = [
            alteration
            if isinstance(alteration, ConfigResult)
            else _REPEATED
            if mentions[_resource(alteration)] > 1
            else await _decide_here(broker, alteration, validate_only, while_undecided)
            for alteration in alterations
        ]
        forwarded = [result for result in local if isinstance(result, ConfigAlteration)]
        decided: list[ConfigResult] = []
        if forwarded:  # loggers are needed most while there is no controller
            try:
                decided = await broker.controller.alter_configs(
                    forwarded, validate_only=validate_only
                )
                if _are_moved(forwarded, decided):
                    await broker.listeners.in_force()
            except KafkaError as error:
                # What was decided here stays true.
                decided = [ConfigResult(error=error.code, message=error.message)] * len(forwarded)
    rest = iter(decided)
    return [next(rest) if isinstance(result, ConfigAlteration) else result for result in local]


def too_many_settings(settings: Sequence[object]) -> ConfigResult | None:
    """Returns the refusal of a resource that names more settings than anybody could have."""
    return _TOO_MANY if len(settings) > MOST_SETTINGS else None


def _resource(alteration: ConfigAlteration) -> tuple[int, str]:
    return alteration.resource_type, alteration.resource_name


async def _decide_here(
    broker: Broker,
    alteration: ConfigAlteration,
    validate_only: bool,
    while_undecided: AsyncExitStack,
) -> ConfigResult | ConfigAlteration:
    """Returns what this broker decides, or what the controller is to decide."""
    try:
        if alteration.resource_type == ResourceType.BROKER:
            return await _prepare_broker(broker, alteration, validate_only, while_undecided)
        if alteration.resource_type == ResourceType.BROKER_LOGGER and not alteration.replaces_all:
            check_altered_loggers(broker.node_id, alteration.resource_name)
            alter_loggers(alteration.changes, validate_only=validate_only)
            return ConfigResult()
    except KafkaError as error:
        return ConfigResult(error=error.code, message=error.message)
    return alteration


async def _prepare_broker(
    broker: Broker,
    alteration: ConfigAlteration,
    validate_only: bool,
    while_undecided: AsyncExitStack,
) -> ConfigAlteration:
    """Returns the alteration for the controller; its listeners are open until it is decided."""
    listeners, name = broker.listeners, alteration.resource_name
    if name:
        check_altered_broker(broker.node_id, name)
        await while_undecided.enter_async_context(listeners.changing)
    config = broker.config
    stored = config.broker_dynamic if name else config.cluster_dynamic
    settings = alteration.apply(BrokerOptions.table, stored)
    changed = validate_broker_update(config, settings, per_broker=bool(name))
    if validate_only or _endpoints(changed) == _endpoints(config):
        return alteration
    endpoints = await while_undecided.enter_async_context(listeners.prepared(changed))
    return msgspec.structs.replace(alteration, endpoints=endpoints)


def _are_moved(alterations: Sequence[ConfigAlteration], results: Sequence[ConfigResult]) -> bool:
    """Returns whether this broker has got other endpoints."""
    return any(
        alteration.endpoints is not None and result.error is ErrorCode.NONE
        for alteration, result in zip(alterations, results, strict=True)
    )


def _endpoints(config: BrokerConfig) -> tuple[Endpoint, ...]:
    return config.endpoints + config.advertised_endpoints


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
