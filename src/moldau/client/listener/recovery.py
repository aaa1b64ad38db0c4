"""The end of records that could not be handled: retry topics and dead-letter topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.types import NewTopic
from moldau.client.listener.headers import (
    Header,
    Retry,
    failed,
    read_retry,
    write_failure,
    write_retry,
)
from moldau.client.listener.retries import OnError, retry_topic
from moldau.client.listener.settings import ListenerSettings
from moldau.client.listener.work import Work
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Clock
from moldau.records.consumer_record import ConsumerRecord

logger: Final = logging.getLogger(__name__)


class SendRecord(Protocol):
    """Sends and waits for the acknowledgment."""

    async def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
        timestamp: int,
    ) -> None: ...


class Recovery:
    """Decides where a record goes that all attempts in place have failed for, and sends it."""

    def __init__(
        self, settings: ListenerSettings, group: str, send: SendRecord, clock: Clock
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._group = group
        self._send = send

    async def recover(self, work: Work, error: BaseException) -> str:
        """Take care of the record; raises ``error`` if that means to stop.

        Returns what became of it: ``retry``, ``dead_letter`` or ``skip``.
        """
        record, retries = work.record, self._settings.retries
        now_ms = self._clock.now_ms()
        failure = failed(record, error, group=self._group, attempts=work.attempts, now_ms=now_ms)
        came_from = read_retry(record.headers)
        delay = retries.next_delay_ms(error, None if came_from is None else came_from.delay_ms)
        source = failure.source.topic
        if delay is not None:
            target = retry_topic(source, delay)
            headers = write_retry(record.headers, Retry(failure, delay, now_ms + delay))
            await self._forward(record, target, headers)
            logger.info("%r failed (%s); again in %d ms through %s", work, error, delay, target)
            return "retry"
        if self._settings.on_error is OnError.STOP:
            raise error
        if self._settings.on_error is OnError.SKIP:
            logger.error("%r failed %d times and is skipped", work, work.attempts, exc_info=error)
            return "skip"
        target = self._settings.dead_letters_of(source)
        await self._forward(record, target, write_failure(record.headers, failure))
        logger.error("%r failed (%s) and is in %s now", work, error, target)
        return "dead_letter"

    async def _forward(self, record: ConsumerRecord, topic: str, headers: list[Header]) -> None:
        await self._send(topic, record.key, record.value, headers, record.timestamp)


async def create_topics(admin: AsyncAdmin, wanted: Mapping[str, str]) -> None:
    """Create retry and dead-letter topics that are missing, as wide as their sources."""
    names = sorted({*wanted, *wanted.values()})
    known = {o.name: o.value for o in await admin.describe_topics(names) if o.value is not None}
    missing = []
    for name, source in wanted.items():
        if name not in known:
            like = known.get(source)
            missing.append(NewTopic(name, len(like.partitions) if like is not None else -1))
    for outcome in await admin.create_topics(missing) if missing else []:
        if outcome.error is not None and outcome.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(
                outcome.error.code, f"Cannot create {outcome.name!r}: {outcome.error.message}"
            )
