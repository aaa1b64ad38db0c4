"""Duties that clients ask for: settings of topics, brokers, groups and client metrics.

A change is read, made and written here, on the controller's queue: two of them can never lose each
other, wherever they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from moldau.config.altering.validation import validate_client_metrics_configs
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group import GroupOptions
from moldau.config.options.topic import TopicOptions
from moldau.config.types import ResourceType
from moldau.controller import writes
from moldau.controller.active import EVERY_BROKER, MIN_INSYNC_REPLICAS, ActiveController
from moldau.controller.requests import ConfigAlteration, ConfigResult
from moldau.controller.topic_names import check_name
from moldau.coordination import paths, znodes
from moldau.coordination.store import Op, SetData
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError


class ConfigAdmin:
    def __init__(self, active: ActiveController, now_ms: Callable[[], int]) -> None:
        self._active = active
        self._now_ms = now_ms
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
        elif kind == ResourceType.CLIENT_METRICS:
            await self._alter_client_metrics(alteration, validate_only)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")

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
        other_min_isr = config.get(MIN_INSYNC_REPLICAS) != stored.get(MIN_INSYNC_REPLICAS)
        if other_min_isr:
            await active.forget_eligible(name)
        put = writes.put_config(
            paths.topic_config(name), config, exists=name in context.topic_configs
        )
        await self._write(put)
        context.put_topic_config(name, config)
        active.sender.send(topic_configs={name: config})
        if other_min_isr:
            active.sender.changed_rules()
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
        stored = context.broker_configs.get(entity, {})
        config = alteration.apply(BrokerOptions.table, stored)
        if entity in (EVERY_BROKER, str(active.controller_id)):
            # Another broker's own settings have been checked by that broker: it knows its file.
            active.settings.validate_broker_config(entity, config)
        if validate_only:
            return
        other_min_isr = config.get(MIN_INSYNC_REPLICAS) != stored.get(MIN_INSYNC_REPLICAS)
        if other_min_isr:
            await active.forget_eligible()
        ops = [
            writes.put_config(
                paths.broker_config(entity), config, exists=entity in context.broker_configs
            )
        ]
        moved: dict[int, BrokerRegistration] = {}
        if alteration.endpoints is not None:
            broker = int(entity)
            registration = msgspec.structs.replace(
                context.brokers[broker], endpoints=alteration.endpoints
            )
            moved[broker] = registration
            data = znodes.encode_broker(registration, self._now_ms())
            ops.append(SetData(paths.broker_id(broker), data))
        await self._write(*ops)
        unclean = active.allows_unclean_election()
        context.broker_configs[entity] = config
        context.brokers |= moved
        active.sender.send(brokers=bool(moved), broker_configs={entity: config})
        if other_min_isr:
            active.sender.changed_rules()
        if active.allows_unclean_election() and not unclean:
            await active.revive()

    async def _alter_group(self, alteration: ConfigAlteration, validate_only: bool) -> None:
        """A group need not exist."""
        active, group = self._active, alteration.resource_name
        if not group:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        configs = self._context.group_configs
        config = alteration.apply(GroupOptions.table, configs.get(group, {}))
        active.settings.validate_group_config(config)
        if validate_only:
            return
        if await self._put_or_drop(configs, group, config, paths.group_config(group)):
            active.sender.send(group_configs={group: config})

    async def _alter_client_metrics(
        self, alteration: ConfigAlteration, validate_only: bool
    ) -> None:
        active, name = self._active, alteration.resource_name
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        configs = self._context.client_metrics_configs
        # As in Kafka, whose table of types does not have these: none of them counts as a list.
        config = alteration.apply({}, configs.get(name, {}))
        validate_client_metrics_configs(config)
        if validate_only:
            return
        if await self._put_or_drop(configs, name, config, paths.client_metrics_config(name)):
            active.sender.send(client_metrics_configs={name: config})

    async def _put_or_drop(
        self, configs: dict[str, dict[str, str]], name: str, config: dict[str, str], path: str
    ) -> bool:
        """Store the settings of what is forgotten when it has none; returns whether that changed
        anything.
        """
        ops = writes.put_or_drop_config(path, config, exists=name in configs)
        if not ops:
            return False
        await self._write(*ops)
        if config:
            configs[name] = config
        else:
            del configs[name]
        return True

    async def _write(self, *ops: Op) -> None:
        batch = [writes.fence(self._context), *ops]
        self._active.raise_errors(await self._active.write([batch]))
