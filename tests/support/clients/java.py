"""Kafka's own Java client, through tests/java/CompatAgent.java."""

from __future__ import annotations

from tests.support import java
from tests.support.agent import AgentClient
from tests.support.clients.base import Sample


class JavaClient(AgentClient):
    name = "Java client"

    def __init__(self, bootstrap: str) -> None:
        source = java.ROOT / "tests/java/CompatAgent.java"
        super().__init__(bootstrap, [*java.java_command(str(source), log_level="off"), bootstrap])

    @classmethod
    def version(cls) -> str:
        return java.KAFKA_VERSION

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Sample]:
        return self._read(topic, count, committed=committed)

    def log_size(self, topic: str) -> int:
        return int(self._agent.call("log_size", topic=topic))

    def producer_ids(self, topic: str) -> list[int]:
        return list(self._agent.call("producer_ids", topic=topic))

    def move_replica(self, topic: str, directory: str) -> None:
        """AlterReplicaLogDirs for the first partition."""
        self._agent.call("move_replica", topic=topic, directory=directory)

    def replica_directory(self, topic: str) -> str:
        """Where DescribeLogDirs shows the first partition, its future replica aside."""
        return str(self._agent.call("replica_directory", topic=topic))

    def max_timestamp_offset(self, topic: str) -> int:
        return int(self._agent.call("max_timestamp_offset", topic=topic))
