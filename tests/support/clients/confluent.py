"""confluent-kafka: librdkafka from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import admin as api
from tests.support.clients.base import Client, ClientError, Sample

TIMEOUT_S = 60.0

# librdkafka would report every broker that a test stops.
QUIET = {"log_level": 0}


def client_error(failure: KafkaException) -> ClientError:
    error: KafkaError = failure.args[0]
    return ClientError(error.name().lstrip("_"), error.str())


class ConfluentKafka(Client):
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = api.AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    @classmethod
    def version(cls) -> str:
        return version("confluent-kafka")

    def write(
        self, topic: str, samples: Sequence[Sample], codec: str, max_request_bytes: int = 1_048_576
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                **QUIET,
                "compression.type": codec,
                "message.max.bytes": max_request_bytes,
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 16384,
                "message.timeout.ms": int(TIMEOUT_S * 1000),
            }
        )
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                offsets.append(message.offset())
            else:
                errors.append(error)

        for sample in samples:
            timestamp = {} if sample.timestamp_ms is None else {"timestamp": sample.timestamp_ms}
            producer.produce(
                topic,
                sample.value,
                sample.key,
                partition=0,
                headers=list(sample.headers),
                on_delivery=delivered,
                **timestamp,
            )
        producer.flush(TIMEOUT_S)
        if errors:
            raise client_error(KafkaException(errors[0]))
        return offsets

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Sample]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                **QUIET,
                "group.id": "never-joined",
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            samples: list[Sample] = []
            while len(samples) < count:
                message = consumer.poll(TIMEOUT_S)
                if message is None:
                    break
                if message.error() is not None:
                    raise client_error(KafkaException(message.error()))
                samples.append(
                    Sample(
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                        message.timestamp()[1],
                    )
                )
            return samples
        finally:
            consumer.close()

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        new = api.NewTopic(topic, partitions, -1, config=dict(configs or {}))
        self._wait(self._admin.create_topics([new]))

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def partition_count(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        self._wait(self._admin.create_partitions([api.NewPartitions(topic, total)]))

    def topic_config(self, topic: str, name: str) -> str:
        return self._config(api.ConfigResource(api.ConfigResource.Type.TOPIC, topic), name)

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        change = api.ConfigEntry(name, value, incremental_operation=api.AlterConfigOpType.SET)
        resource = api.ConfigResource(
            api.ConfigResource.Type.TOPIC, topic, incremental_configs=[change]
        )
        self._wait(self._admin.incremental_alter_configs([resource]))

    def broker_config(self, name: str) -> str:
        node = min(self.node_ids())
        return self._config(api.ConfigResource(api.ConfigResource.Type.BROKER, str(node)), name)

    def delete_records(self, topic: str, before: int) -> None:
        self._wait(self._admin.delete_records([TopicPartition(topic, 0, before)]))

    def earliest_offset(self, topic: str) -> int:
        return self._offset(topic, api.OffsetSpec.earliest())

    def latest_offset(self, topic: str) -> int:
        return self._offset(topic, api.OffsetSpec.latest())

    def offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int:
        return self._offset(topic, api.OffsetSpec.for_timestamp(timestamp_ms))

    def node_ids(self) -> set[int]:
        return {node.id for node in self._admin.describe_cluster().result(TIMEOUT_S).nodes}

    def delete_topic(self, topic: str) -> None:
        self._wait(self._admin.delete_topics([topic]))

    def _config(self, resource: api.ConfigResource, name: str) -> str:
        (entries,) = self._wait(self._admin.describe_configs([resource]))
        value: str = entries[name].value
        return value

    def _offset(self, topic: str, spec: api.OffsetSpec) -> int:
        (result,) = self._wait(self._admin.list_offsets({TopicPartition(topic, 0): spec}))
        offset: int = result.offset
        return offset

    @staticmethod
    def _wait(futures: Mapping[Any, Any]) -> list[Any]:
        try:
            return [future.result(TIMEOUT_S) for future in futures.values()]
        except KafkaException as failure:
            raise client_error(failure) from failure
