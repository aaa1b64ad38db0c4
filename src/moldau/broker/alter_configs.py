"""Changing settings of topics, brokers and groups: what both ways of altering have in common.

The controller decides. A broker's own settings are checked here first, by the one that knows what
its file says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from moldau.broker.broker import Broker
from moldau.broker.config_resources import check_altered_broker
from moldau.config.altering.validation import validate_broker_update
from moldau.config.options.broker import BrokerOptions
from moldau.config.types import ResourceType
from moldau.controller import ConfigAlteration, ConfigResult
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

A = TypeVar("A")

_TWICE: Final = ConfigResult(
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
    times = Counter((each.resource_type, each.resource_name) for each in alterations)
    refusals = [
        _TWICE
        if times[alteration.resource_type, alteration.resource_name] > 1
        else _refuse(broker, alteration)
        for alteration in alterations
    ]
    accepted = [
        alteration
        for alteration, refusal in zip(alterations, refusals, strict=True)
        if refusal is None
    ]
    decided = iter(await broker.controller.alter_configs(accepted, validate_only=validate_only))
    return [next(decided) if refusal is None else refusal for refusal in refusals]


def _refuse(broker: Broker, alteration: ConfigAlteration) -> ConfigResult | None:
    if alteration.resource_type != ResourceType.BROKER:
        return None
    name, config = alteration.resource_name, broker.config
    try:
        if name:
            check_altered_broker(broker.node_id, name)
        stored = config.broker_dynamic if name else config.cluster_dynamic
        settings = alteration.apply(BrokerOptions.table, stored)
        validate_broker_update(config, settings, per_broker=bool(name))
    except KafkaError as error:
        return ConfigResult(error=error.code, message=error.message)
    return None


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
