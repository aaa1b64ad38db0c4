"""Duties that clients ask for: settings of topics, brokers and groups.

A change is read, made and written here, on the controller's queue: two of them can never lose each
other, wherever they were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group import GroupOptions
from moldau.config.options.topic import TopicOptions
from moldau.config.types import ResourceType
from moldau.controller import writes
from moldau.controller.active import EVERY_BROKER, ActiveController
from moldau.controller.requests import ConfigAlteration, ConfigResult
from moldau.controller.topic_names import check_name
from moldau.coordination import paths
from moldau.coordination.store import Op
from moldau.errors import ErrorCode, KafkaError


class ConfigAdmin:
    def __init__(self, active: ActiveController) -> None:
        self._active = active
        self._context = active.context

    async def alter(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool
    ) -> list[ConfigResult]:
        """Each succeeds or fails alone."""
        results: list[ConfigResult] = []
        for alteration in alterations:
            try:
                await self._alter(alteration, validate_only)
                results.append(ConfigResult())
            except KafkaError as error:
                results.append(ConfigResult(error=error.code, message=error.message))
        return results

    async def _alter(self, alteration: ConfigAlteration, validate_only: bool) -> None:
        kind = alteration.resource_type
        if kind == ResourceType.TOPIC:
            await self._alter_topic(alteration, validate_only)
        elif kind == ResourceType.BROKER:
            await self._alter_broker(alteration, validate_only)
        elif kind == ResourceType.GROUP:
            await self._alter_group(alteration, validate_only)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {kind} is not served")

    async def _alter_topic(self, alteration: ConfigAlteration, validate_only: bool) -> None:
        context, active = self._context, self._active
        name = alteration.resource_name
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_name(name)
        if context.existing_topic(name) is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
        stored = context.topic_configs.get(name, {})
        config = alteration.apply(TopicOptions.table, stored)
        active.settings.validate_topic_config(config)
        if validate_only:
            return
        put = writes.put_config(
            paths.topic_config(name), config, exists=name in context.topic_configs
        )
        await self._write(put)
        context.topic_configs[name] = config
        await active.settle(await active.sender.send(topic_configs={name: config}))
        if active.allows_unclean_election(name):
            await active.revive(name)

    async def _alter_broker(self, alteration: ConfigAlteration, validate_only: bool) -> None:
        context, active = self._context, self._active
        entity = alteration.resource_name
        if entity != EVERY_BROKER and (
            not entity.isdecimal() or int(entity) not in context.brokers
        ):
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {entity} found."
            )
        config = alteration.apply(BrokerOptions.table, context.broker_configs.get(entity, {}))
        if entity in (EVERY_BROKER, str(active.controller_id)):
            # Another broker's own settings have been checked by that broker: it knows its file.
            active.settings.validate_broker_config(entity, config)
        if validate_only:
            return
        put = writes.put_config(
            paths.broker_config(entity), config, exists=entity in context.broker_configs
        )
        await self._write(put)
        unclean = active.allows_unclean_election()
        context.broker_configs[entity] = config
        await active.settle(await active.sender.send(broker_configs={entity: config}))
        if active.allows_unclean_election() and not unclean:
            await active.revive()

    async def _alter_group(self, alteration: ConfigAlteration, validate_only: bool) -> None:
        """A group need not exist; without any settings it is forgotten."""
        context, active = self._context, self._active
        group = alteration.resource_name
        if not group:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        stored: Mapping[str, str] = context.group_configs.get(group, {})
        config = alteration.apply(GroupOptions.table, stored)
        active.settings.validate_group_config(config)
        if validate_only:
            return
        path = paths.group_config(group)
        ops = writes.put_or_drop_config(path, config, exists=group in context.group_configs)
        if not ops:
            return
        await self._write(*ops)
        if config:
            context.group_configs[group] = config
        else:
            del context.group_configs[group]
        await active.settle(await active.sender.send(group_configs={group: config}))

    async def _write(self, *ops: Op) -> None:
        batch = [writes.fence(self._context), *ops]
        self._active.raise_errors(await self._active.write([batch]))
