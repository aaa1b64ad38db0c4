"""kafka-python, version 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError
from tests.support.clients.base import Client, ClientError, Sample

TIMEOUT_S = 60.0


class KafkaPython(Client):
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    @classmethod
    def version(cls) -> str:
        return version("kafka-python")

    def close(self) -> None:
        self._admin.close()

    def can_write(self, sample: Sample) -> bool:
        # It insists on a key or a value, and on bytes in every header.
        something = sample.key is not None or sample.value is not None
        return something and all(value is not None for _, value in sample.headers)

    def write(
        self, topic: str, samples: Sequence[Sample], codec: str, max_request_bytes: int = 1_048_576
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            max_request_size=max_request_bytes,
            batch_size=65536,
            linger_ms=20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    sample.value,
                    sample.key,
                    headers=list(sample.headers),
                    partition=0,
                    timestamp_ms=sample.timestamp_ms,
                )
                for sample in samples
            ]
            return [future.get(TIMEOUT_S).offset for future in futures]
        except KafkaError as failure:
            raise _client_error(failure) from failure
        finally:
            producer.close()

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Sample]:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
            consumer_timeout_ms=TIMEOUT_S * 1000,
            fetch_max_wait_ms=100,
        )
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            samples: list[Sample] = []
            while len(samples) < count:
                message = next(consumer, None)
                if message is None:
                    break
                samples.append(
                    Sample(message.key, message.value, tuple(message.headers), message.timestamp)
                )
            return samples
        finally:
            consumer.close()

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, -1, topic_configs=dict(configs or {}))
        try:
            self._admin.create_topics([new])
        except KafkaError as failure:
            raise _client_error(failure) from failure

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        (described,) = self._admin.describe_topics([topic])
        return len(described["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})

    def topic_config(self, topic: str, name: str) -> str:
        return self._config(ConfigResourceType.TOPIC, topic, name)

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])

    def broker_config(self, name: str) -> str:
        return self._config(ConfigResourceType.BROKER, str(min(self.node_ids())), name)

    def delete_records(self, topic: str, before: int) -> None:
        self._admin.delete_records({TopicPartition(topic, 0): before})

    def earliest_offset(self, topic: str) -> int:
        return self._offset(topic, -2)

    def latest_offset(self, topic: str) -> int:
        return self._offset(topic, -1)

    def offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int:
        return self._offset(topic, timestamp_ms)

    def node_ids(self) -> set[int]:
        brokers = self._admin.describe_cluster()["brokers"]
        return {broker.get("node_id", broker.get("broker_id")) for broker in brokers}

    def log_size(self, topic: str) -> int:
        (broker,) = self._admin.describe_log_dirs({topic: [0]}, brokers=[1])
        sizes = [
            partition["partition_size"]
            for log_dir in broker["log_dirs"]
            for found in log_dir["topics"]
            for partition in found["partitions"]
            if found["name"] == topic
        ]
        return sum(sizes)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def _config(self, kind: ConfigResourceType, resource: str, name: str) -> str:
        described = self._admin.describe_configs(
            [ConfigResource(kind, resource, {name: None})], config_filter="all"
        )
        value: str = described[kind.name.lower()][resource][name]["value"]
        return value

    def _offset(self, topic: str, timestamp_ms: int) -> int:
        partition = TopicPartition(topic, 0)
        offset: int = self._admin.list_partition_offsets({partition: timestamp_ms})[
            partition
        ].offset
        return offset


def _client_error(failure: KafkaError) -> ClientError:
    return ClientError(getattr(failure, "message", type(failure).__name__), str(failure))
