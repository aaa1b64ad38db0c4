"""The decisions of queries in a compacted topic, the last one of each query by its key.

Each query writes under a transactional id of its own: whoever takes the ledger fences off the one
who had it, and reads on from there. A holder that is not fenced off knows the last decision,
because it has written it.

The topic has one partition: with more, somebody could add some, and keys would move.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.types import ConfigResource, NewTopic
from moldau.client.consumer.async_consumer import AsyncConsumer
from moldau.client.errors import (
    AuthorizationError,
    ProducerFencedError,
    TimedOutError,
    UnknownTopicError,
)
from moldau.client.offsets import OffsetSpec
from moldau.client.producer.async_producer import AsyncProducer
from moldau.client.settings import CommonSettings, ProducerSettings
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.spark.exactly_once.decision import Decision, QueryName, decode, encode
from moldau.spark.exactly_once.errors import ExactlyOnceError, SupersededError

logger: Final = logging.getLogger("moldau.spark")

TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    # The whole partition is read when the ledger is taken: small segments are compacted soon.
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_WRITE_TIMEOUT_MS: Final = 10_000
"""Readers of the other queries wait this long for a decision whose writer died over it."""
_LARGEST_DECISION: Final = 32 << 20
"""Bytes before compression, for tens of thousands of tasks."""
_READ_TIMEOUT: Final = 60.0
_POLL: Final = 0.05
"""Seconds; the end of the topic is a marker, with which no poll returns."""


class TopicLedger:
    """``protocol.Ledger`` over a topic."""

    def __init__(
        self, client: Mapping[str, str], topic: str, query: QueryName, admin: AsyncAdmin
    ) -> None:
        self._common = ProducerSettings(client).given(CommonSettings)
        self._partition = TopicPartition(topic, 0)
        self._query = query
        self._admin = admin
        self._producer: AsyncProducer | None = None
        self._last: Decision | None = None

    @property
    def name(self) -> str:
        return self._partition.topic

    async def take(self) -> Decision | None:
        if self._producer is None:
            await self._ensure_topic()
            self._producer = AsyncProducer(
                {
                    **self._common,
                    "transactional.id": self._query.decider,
                    "transaction.timeout.ms": _WRITE_TIMEOUT_MS,
                    "compression.type": "gzip",
                    "max.request.size": _LARGEST_DECISION,
                    "linger.ms": 0,
                }
            )
            await self._producer.init_transactions()
            self._last = await self._read(read_committed=False)
        return self._last

    async def peek(self) -> Decision | None:
        try:
            return await self._read(read_committed=True)
        except UnknownTopicError:
            return None

    async def write(self, decision: Decision, *, within: float) -> None:
        assert self._producer is not None
        try:
            async with asyncio.timeout(within), self._producer.transaction():
                await self._producer.send(
                    self._partition.topic,
                    encode(decision),
                    key=self._query.key.encode(),
                    partition=self._partition.partition,
                )
        except ProducerFencedError:
            raise SupersededError(decision.batch) from None
        except TimeoutError:
            raise TimedOutError(
                f"The decision could not be written to {self.name} in {within:.1f} s"
            ) from None
        self._last = decision

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close(0)

    async def _read(self, *, read_committed: bool) -> Decision | None:
        """The last committed decision.

        With ``read_committed``, of those that are settled by now; else every transaction that has
        begun is waited for.
        """
        ends = await self._admin.list_offsets(
            {self._partition: OffsetSpec.LATEST}, read_committed=read_committed
        )
        end = ends[self._partition].offset
        key = self._query.key.encode()
        last = None
        settings = {**self._common, "isolation.level": "read_committed"}
        async with AsyncConsumer(settings, enable_auto_commit=False) as consumer:
            consumer.assign([self._partition])
            consumer.seek_to_beginning(self._partition)
            try:
                async with asyncio.timeout(_READ_TIMEOUT):
                    while await consumer.position(self._partition) < end:
                        for record in (await consumer.poll(_POLL)).records():
                            if record.key == key and record.value is not None:
                                last = record.value
            except TimeoutError:
                raise TimedOutError(
                    f"{self._partition.topic} could not be read in {_READ_TIMEOUT:g} s: is a "
                    "transaction open there?"
                ) from None
        return None if last is None else decode(last)

    async def _ensure_topic(self) -> None:
        topic = self._partition.topic
        (found,) = await self._admin.describe_topics([topic])
        if found.error is None:
            await self._check_policy(topic)
        elif found.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            (made,) = await self._admin.create_topics([NewTopic(topic, 1, configs=TOPIC_CONFIGS)])
            if made.error is not None and made.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise made.error
        else:
            raise found.error

    async def _check_policy(self, topic: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (configs,) = await self._admin.describe_configs([resource])
        if configs.error is not None and isinstance(configs.error, AuthorizationError):
            logger.warning("whether %s is compacted cannot be checked: %s", topic, configs.error)
            return
        policy = {entry.name: entry.value for entry in configs.get()}["cleanup.policy"]
        if policy != "compact":
            raise ExactlyOnceError(
                f"Topic {topic} keeps the decisions of exactly-once queries and must not lose "
                f"them, but has cleanup.policy={policy}: set it to compact"
            )
