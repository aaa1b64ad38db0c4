"""Clients of other languages: a process that answers one line of JSON for each line of JSON.

One process serves all tests of a session, so that starting a JVM or Node.js is paid once.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.clients.base import Client, ClientError, Sample


class Agent:
    """The process and its pipe."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def call(self, op: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"{self._process.args!r} ended:\n{self._errors.read().decode()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"], answer["message"])
        return answer["result"]

    def close(self) -> None:
        """Ends the process by closing its input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()


class AgentClient(Client):
    """A client whose every operation is a call of the agent."""

    def __init__(self, bootstrap: str, command: Sequence[str]) -> None:
        super().__init__(bootstrap)
        self._agent = Agent(command)

    def close(self) -> None:
        self._agent.close()

    def write(
        self, topic: str, samples: Sequence[Sample], codec: str, max_request_bytes: int = 1_048_576
    ) -> list[int]:
        offsets: list[int] = self._agent.call(
            "write",
            topic=topic,
            samples=[_to_json(sample) for sample in samples],
            codec=codec,
            max_request_bytes=max_request_bytes,
        )
        return offsets

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        self._agent.call(
            "create_topic", topic=topic, partitions=partitions, configs=dict(configs or {})
        )

    def list_topics(self) -> set[str]:
        return set(self._agent.call("list_topics"))

    def partition_count(self, topic: str) -> int:
        return int(self._agent.call("partition_count", topic=topic))

    def create_partitions(self, topic: str, total: int) -> None:
        self._agent.call("create_partitions", topic=topic, total=total)

    def topic_config(self, topic: str, name: str) -> str:
        return str(self._agent.call("topic_config", topic=topic, name=name))

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        self._agent.call("alter_topic_config", topic=topic, name=name, value=value)

    def broker_config(self, name: str) -> str:
        return str(self._agent.call("broker_config", name=name))

    def delete_records(self, topic: str, before: int) -> None:
        self._agent.call("delete_records", topic=topic, before=before)

    def earliest_offset(self, topic: str) -> int:
        return int(self._agent.call("earliest_offset", topic=topic))

    def latest_offset(self, topic: str) -> int:
        return int(self._agent.call("latest_offset", topic=topic))

    def offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int:
        return int(self._agent.call("offset_for_timestamp", topic=topic, timestamp_ms=timestamp_ms))

    def node_ids(self) -> set[int]:
        return set(self._agent.call("node_ids"))

    def delete_topic(self, topic: str) -> None:
        self._agent.call("delete_topic", topic=topic)

    def _read(self, topic: str, count: int, *, committed: bool) -> list[Sample]:
        samples = self._agent.call("read", topic=topic, count=count, committed=committed)
        return [_from_json(sample) for sample in samples]


def _to_json(sample: Sample) -> dict[str, Any]:
    return {
        "key": _text(sample.key),
        "value": _text(sample.value),
        "headers": [[name, _text(value)] for name, value in sample.headers],
        "timestamp_ms": sample.timestamp_ms,
    }


def _from_json(sample: Mapping[str, Any]) -> Sample:
    headers = tuple((name, _bytes(value)) for name, value in sample["headers"])
    return Sample(_bytes(sample["key"]), _bytes(sample["value"]), headers, sample["timestamp_ms"])


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
