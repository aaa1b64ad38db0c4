"""aiokafka, on an event loop of its own so that the tests can stay synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import (
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code
from tests.support.clients.base import Client, ClientError, Sample

TIMEOUT_S = 60.0


class AioKafka(Client):
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._runner = asyncio.Runner()
        self._admin = self._runner.run(self._start_admin())

    @classmethod
    def version(cls) -> str:
        return version("aiokafka")

    def close(self) -> None:
        self._runner.run(self._admin.close())
        self._runner.close()

    def can_write(self, sample: Sample) -> bool:
        # It insists on a key or a value, and on bytes in every header.
        something = sample.key is not None or sample.value is not None
        return something and all(value is not None for _, value in sample.headers)

    def write(
        self, topic: str, samples: Sequence[Sample], codec: str, max_request_bytes: int = 1_048_576
    ) -> list[int]:
        return self._runner.run(self._write(topic, samples, codec, max_request_bytes))

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Sample]:
        return self._runner.run(self._read(topic, count, committed))

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        response = self._runner.run(self._admin.create_topics([new]))
        _check(response.topic_errors[0])

    def list_topics(self) -> set[str]:
        return set(self._runner.run(self._admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        (described,) = self._runner.run(self._admin.describe_topics([topic]))
        return len(described["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        response = self._runner.run(
            self._admin.create_partitions({topic: NewPartitions(total)}, timeout_ms=30_000)
        )
        _check(response.topic_errors[0])

    def topic_config(self, topic: str, name: str) -> str:
        return self._config(ConfigResourceType.TOPIC, topic, name)

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        self._runner.run(self._admin.alter_configs([resource]))

    def broker_config(self, name: str) -> str:
        return self._config(ConfigResourceType.BROKER, str(min(self.node_ids())), name)

    def delete_records(self, topic: str, before: int) -> None:
        self._runner.run(
            self._admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before)})
        )

    def earliest_offset(self, topic: str) -> int:
        return self._runner.run(self._offsets(topic))[0]

    def latest_offset(self, topic: str) -> int:
        return self._runner.run(self._offsets(topic))[1]

    def offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int:
        return self._runner.run(self._offset_for_timestamp(topic, timestamp_ms))

    def node_ids(self) -> set[int]:
        described = self._runner.run(self._admin.describe_cluster())
        return {broker["node_id"] for broker in described["brokers"]}

    def delete_topic(self, topic: str) -> None:
        response = self._runner.run(self._admin.delete_topics([topic]))
        _check(response.topic_error_codes[0])

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    async def _write(
        self, topic: str, samples: Sequence[Sample], codec: str, max_request_bytes: int
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            max_request_size=max_request_bytes,
            max_batch_size=max(max_request_bytes, 65536),
            acks="all",
            linger_ms=20,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    sample.value,
                    sample.key,
                    partition=0,
                    timestamp_ms=sample.timestamp_ms,
                    headers=list(sample.headers),
                )
                for sample in samples
            ]
            return [(await future).offset for future in futures]
        except KafkaError as failure:
            raise ClientError(getattr(failure, "message", ""), str(failure)) from failure
        finally:
            await producer.stop()

    async def _read(self, topic: str, count: int, committed: bool) -> list[Sample]:
        consumer = self._consumer(committed)
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            samples: list[Sample] = []
            async with asyncio.timeout(TIMEOUT_S):
                while len(samples) < count:
                    message = await consumer.getone()
                    samples.append(
                        Sample(
                            message.key, message.value, tuple(message.headers), message.timestamp
                        )
                    )
            return samples
        finally:
            await consumer.stop()

    async def _offsets(self, topic: str) -> tuple[int, int]:
        consumer = self._consumer(committed=False)
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            earliest = await consumer.beginning_offsets([partition])
            latest = await consumer.end_offsets([partition])
            return earliest[partition], latest[partition]
        finally:
            await consumer.stop()

    async def _offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int:
        consumer = self._consumer(committed=False)
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            return -1 if found is None else int(found.offset)
        finally:
            await consumer.stop()

    def _consumer(self, committed: bool) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed" if committed else "read_uncommitted",
            fetch_max_wait_ms=100,
        )

    def _config(self, kind: ConfigResourceType, resource: str, name: str) -> str:
        wanted = ConfigResource(kind, resource, {name: ""})
        (response,) = self._runner.run(self._admin.describe_configs([wanted]))
        entries: list[Any] = response.resources[0][4]
        return next(str(entry[1]) for entry in entries if entry[0] == name)


def _check(result: Sequence[Any]) -> None:
    """Raises what a (topic, error code, ...) entry of an answer says."""
    code: int = result[1]
    if code:
        raise ClientError(for_code(code).message, str(result))
