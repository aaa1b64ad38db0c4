"""Interceptors of consumers: see records before the user does, and offsets when committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from moldau.client.consumer.records import ConsumerRecords
from moldau.client.plugins import load_plugin
from moldau.model import OffsetAndMetadata, TopicPartition

logger: Final = logging.getLogger(__name__)


class ConsumerInterceptor:
    """Subclass it and name it in ``interceptor.classes``. One that fails is passed over."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """What the user is to see instead."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""

    def close(self) -> None:
        """The consumer is closed."""


class ConsumerInterceptors:
    def __init__(self, interceptors: tuple[Any, ...]) -> None:
        self._chain = [load_plugin(item, "interceptor.classes") for item in interceptors]

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        for interceptor in self._chain:
            try:
                records = interceptor.on_consume(records)
            except Exception:
                logger.exception("interceptor %r failed and is passed over", interceptor)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._chain:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                logger.exception("interceptor %r failed and is passed over", interceptor)

    def close(self) -> None:
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                logger.exception("interceptor %r failed while closing", interceptor)
