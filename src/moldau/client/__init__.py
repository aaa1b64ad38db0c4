"""A client for Kafka clusters: administration, producing, reading partitions.

Everything is async over one :class:`Cluster`; it works against Moldau and Apache Kafka alike.
``Producer`` and ``Reader`` are imported from their modules: administration does not pay for them.
"""

# Before anything imports kio: keeps hypothesis, which kio would load, out of the process.
import moldau.wire.schema  # noqa: F401

# isort: split
from moldau.client.admin import Admin
from moldau.client.admin_types import (
    AlterOperation,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
    CreatedTopic,
    LogDir,
    NewTopic,
    OffsetAndTimestamp,
    OffsetSpec,
    Outcome,
    ResourceType,
    raise_first_error,
)
from moldau.client.client import Client
from moldau.client.cluster import Cluster
from moldau.client.errors import (
    ClientError,
    ConnectionLostError,
    NoBrokersError,
    TimedOutError,
    UnknownTopicError,
    UnsupportedApiError,
)
from moldau.client.metadata import ClusterMetadata, PartitionInfo, TopicInfo

__all__ = [
    "Admin",
    "AlterOperation",
    "Client",
    "ClientError",
    "Cluster",
    "ClusterDescription",
    "ClusterMetadata",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigType",
    "ConnectionLostError",
    "CreatedTopic",
    "LogDir",
    "NewTopic",
    "NoBrokersError",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "Outcome",
    "PartitionInfo",
    "ResourceType",
    "TimedOutError",
    "TopicInfo",
    "UnknownTopicError",
    "UnsupportedApiError",
    "raise_first_error",
]
