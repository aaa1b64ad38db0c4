"""Administration: topics, partitions, records, cluster. Settings are in ``configs.py``.

Requests about many items answer one :class:`Outcome` per item, in the order asked: one bad name
does not hide what became of the others. Requests go to the controller, or to the broker they are
about, and are repeated when the cluster says that another broker has that role now.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from moldau.client.admin_types import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    LogDir,
    NewTopic,
    OffsetAndTimestamp,
    Outcome,
)
from moldau.client.backoff import retrying
from moldau.client.cluster import Cluster
from moldau.client.configs import alter_configs, describe_configs
from moldau.client.connection import BrokerConnection
from moldau.client.errors import check, error_of
from moldau.client.metadata import TopicInfo
from moldau.client.offsets import delete_records, list_offsets
from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID, Node, TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.make import make

if TYPE_CHECKING:
    from moldau.client.groups import GroupAdmin

T = TypeVar("T")


class Admin:
    """Administrative requests over a shared :class:`Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def groups(self) -> GroupAdmin:
        """Administration of consumer groups."""
        # Imported on first use: the messages of a dozen APIs that most programs never send.
        from moldau.client.groups import GroupAdmin

        return GroupAdmin(self._cluster)

    async def list_topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """All topics by name, those of the cluster's own only on demand."""
        metadata = await self._retrying(lambda: self._cluster.refresh(None))
        topics = sorted(metadata.topics.values(), key=lambda topic: topic.name)
        return [topic for topic in topics if internal or not topic.internal]

    async def describe_topics(self, names: Collection[str]) -> list[Outcome[TopicInfo]]:
        metadata = await self._retrying(lambda: self._cluster.refresh(names))
        return [
            Outcome(name, metadata.topics.get(name), metadata.errors.get(name)) for name in names
        ]

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[Outcome[CreatedTopic]]:
        request = make(
            CreateTopicsRequest,
            topics=tuple(_creatable(topic) for topic in topics),
            timeout=self._timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._ask_controller(ApiKey.CREATE_TOPICS, request, _topic_codes)
        results = {result.name: result for result in answer.topics}
        return [
            Outcome(
                topic.name,
                CreatedTopic(
                    topic.name,
                    results[topic.name].topic_id or NO_TOPIC_ID,
                    results[topic.name].num_partitions,
                    results[topic.name].replication_factor,
                ),
                error_of(results[topic.name].error_code, results[topic.name].error_message),
            )
            for topic in topics
        ]

    async def delete_topics(self, names: Sequence[str]) -> list[Outcome[str]]:
        request = make(
            DeleteTopicsRequest,
            topics=tuple(make(DeleteTopicState, name=name, topic_id=None) for name in names),
            timeout=self._timeout_ms,
        )
        answer = await self._ask_controller(
            ApiKey.DELETE_TOPICS, request, lambda a: [r.error_code for r in a.responses]
        )
        for name in names:
            self._cluster.forget(name)
        results = {result.name: result for result in answer.responses}
        return [
            Outcome(name, name, error_of(results[name].error_code, results[name].error_message))
            for name in names
        ]

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> list[Outcome[int]]:
        """Grow topics to the given numbers of partitions."""
        request = make(
            CreatePartitionsRequest,
            topics=tuple(
                make(CreatePartitionsTopic, name=name, count=count, assignments=None)
                for name, count in counts.items()
            ),
            timeout=self._timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._ask_controller(
            ApiKey.CREATE_PARTITIONS, request, lambda a: [r.error_code for r in a.results]
        )
        for name in counts:
            self._cluster.forget(name)
        results = {result.name: result for result in answer.results}
        return [
            Outcome(name, count, error_of(results[name].error_code, results[name].error_message))
            for name, count in counts.items()
        ]

    async def describe_cluster(self) -> ClusterDescription:
        request = make(
            DescribeClusterRequest,
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=False,
        )

        async def attempt() -> Any:
            connection = await self._cluster.any_connection()
            return await connection.request(ApiKey.DESCRIBE_CLUSTER, request)

        answer = await self._retrying(attempt)
        check(answer.error_code, answer.error_message)
        return ClusterDescription(
            answer.cluster_id,
            answer.controller_id,
            tuple(Node(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers),
        )

    async def describe_log_dirs(self, node_ids: Collection[int] | None = None) -> list[LogDir]:
        """The log directories of these brokers (of all by default), with sizes by partition."""
        if node_ids is None:
            await self._retrying(lambda: self._cluster.refresh(()))
            node_ids = list(self._cluster.metadata.nodes)
        found = await asyncio.gather(*(self._log_dirs_of(node_id) for node_id in node_ids))
        return [log_dir for log_dirs in found for log_dir in log_dirs]

    async def describe_configs(
        self,
        resources: Sequence[ConfigResource],
        *,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> list[Outcome[list[ConfigEntry]]]:
        return await describe_configs(self._cluster, resources, synonyms, documentation)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[Outcome[ConfigResource]]:
        """Change single settings, leaving the others alone (IncrementalAlterConfigs)."""
        return await alter_configs(self._cluster, changes, validate_only)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after each timestamp; ``OffsetSpec`` has the special ones."""
        return await list_offsets(self._cluster, timestamps, read_committed=read_committed)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> list[Outcome[int]]:
        """Drop records below these offsets (-1: all); answers the new start of each log."""
        return await delete_records(self._cluster, before)

    @property
    def _timeout_ms(self) -> int:
        return round(self._cluster.request_timeout * 1000)

    async def _retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await retrying(attempt, within=self._cluster.request_timeout)

    async def _ask_controller(
        self, api: ApiKey, request: Any, codes: Callable[[Any], Collection[int]]
    ) -> Any:
        async def attempt() -> Any:
            connection: BrokerConnection = await self._cluster.controller_connection()
            answer = await connection.request(api, request)
            if ErrorCode.NOT_CONTROLLER in codes(answer):
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "The controller has moved")
            return answer

        async def learn_controller(_: KafkaError) -> None:
            await self._cluster.refresh(())

        return await retrying(
            attempt, within=self._cluster.request_timeout, recover=learn_controller
        )

    async def _log_dirs_of(self, node_id: int) -> list[LogDir]:
        async def attempt() -> Any:
            connection = await self._cluster.connection(node_id)
            return await connection.request(
                ApiKey.DESCRIBE_LOG_DIRS, make(DescribeLogDirsRequest, topics=None)
            )

        answer = await self._retrying(attempt)
        check(answer.error_code)
        return [_read_log_dir(node_id, result) for result in answer.results]


def _creatable(topic: NewTopic) -> CreatableTopic:
    return make(
        CreatableTopic,
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=tuple(
            make(CreatableReplicaAssignment, partition_index=partition, broker_ids=tuple(brokers))
            for partition, brokers in topic.assignments.items()
        ),
        configs=tuple(
            make(CreatableTopicConfig, name=name, value=value)
            for name, value in topic.configs.items()
        ),
    )


def _topic_codes(answer: Any) -> list[int]:
    return [topic.error_code for topic in answer.topics]


def _read_log_dir(node_id: int, result: Any) -> LogDir:
    sizes: dict[TopicPartition, int] = defaultdict(int)
    for topic in result.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            sizes[key] += partition.partition_size
    return LogDir(
        node_id,
        result.log_dir,
        error_of(result.error_code),
        dict(sizes),
        result.total_bytes,
        result.usable_bytes,
    )
