"""Code of the user's own before a record is serialized and after its fate is known.

An interceptor that fails is logged and skipped: it cannot stop a record.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from moldau.client.plugins import load_plugin
from moldau.client.producer.record import ProducerRecord
from moldau.client.producer.result import RecordMetadata

logger: Final = logging.getLogger("moldau.client.producer")


class ProducerInterceptor:
    """Derive from this and override what is needed; any object with these methods will do."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in the sending thread; returns the record to send instead."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Called in the producer's thread, with one of the two."""

    def close(self) -> None:
        """The producer is closed."""


class Interceptors:
    """The chain, in the order of ``interceptor.classes``."""

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._chain = [load_plugin(item, "interceptor.classes") for item in interceptors]

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._chain:
            try:
                record = interceptor.on_send(record)
            except Exception as error:
                _log_failure(interceptor, "on_send", error)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        for interceptor in self._chain:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception as failure:
                _log_failure(interceptor, "on_acknowledgement", failure)

    def close(self) -> None:
        for interceptor in self._chain:
            close = getattr(interceptor, "close", None)
            if close is not None:
                try:
                    close()
                except Exception as error:
                    _log_failure(interceptor, "close", error)


def _log_failure(interceptor: object, method: str, error: Exception) -> None:
    name = type(interceptor).__name__
    logger.error("interceptor %s failed in %s and is skipped: %r", name, method, error)
