"""What the compatibility tests ask of a Kafka client, in one vocabulary for all of them.

A client overrides what it can do; ``offers`` tells whether it did, so that the tests are only
collected for what a client has, and the compatibility table shows the rest as not offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Sample:
    """One record as written or read; a timestamp of None is whatever the client chose."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None

    def without_timestamp(self) -> Sample:
        return replace(self, timestamp_ms=None)


class UnsupportedError(Exception):
    """The client has no such call."""


class ClientError(Exception):
    """The broker refused; ``error`` is Kafka's name of the error code."""

    def __init__(self, error: str, message: str = "") -> None:
        super().__init__(f"{error}: {message}")
        self.error = error


class Client:
    """One Kafka client library or tool, connected to one cluster."""

    name: str
    codecs: tuple[str, ...] = ALL_CODECS
    sets_timestamps = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @classmethod
    def offers(cls, operation: str) -> bool:
        return getattr(cls, operation) is not getattr(Client, operation)

    @classmethod
    def version(cls) -> str:
        """Version of the library or tool, for the compatibility table."""
        return ""

    def close(self) -> None:
        """Lets go of connections and processes."""

    # --- Records ---

    def can_write(self, sample: Sample) -> bool:
        """Whether this client is able to express such a record at all."""
        return True

    def write(
        self, topic: str, samples: Sequence[Sample], codec: str, max_request_bytes: int = 1_048_576
    ) -> list[int]:
        """Produces to partition 0 with acks=all and returns the offsets."""
        raise UnsupportedError

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Sample]:
        """Assigns partition 0, without a group, and reads that many records from the beginning."""
        raise UnsupportedError

    # --- Administration ---

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        raise UnsupportedError

    def list_topics(self) -> set[str]:
        raise UnsupportedError

    def partition_count(self, topic: str) -> int:
        raise UnsupportedError

    def create_partitions(self, topic: str, total: int) -> None:
        raise UnsupportedError

    def topic_config(self, topic: str, name: str) -> str:
        raise UnsupportedError

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        raise UnsupportedError

    def broker_config(self, name: str) -> str:
        raise UnsupportedError

    def delete_records(self, topic: str, before: int) -> None:
        """Deletes the records of partition 0 before that offset."""
        raise UnsupportedError

    def earliest_offset(self, topic: str) -> int:
        raise UnsupportedError

    def latest_offset(self, topic: str) -> int:
        raise UnsupportedError

    def offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int:
        raise UnsupportedError

    def node_ids(self) -> set[int]:
        raise UnsupportedError

    def log_size(self, topic: str) -> int:
        """Bytes of partition 0 in the broker's log directory."""
        raise UnsupportedError

    def delete_topic(self, topic: str) -> None:
        raise UnsupportedError
