"""Clients for Kafka clusters: producers, consumers, administration.

They work against Moldau and Apache Kafka alike, and each exists twice: async, and blocking over
the same code. Public names are imported from ``moldau``, or from the modules here; nothing is
loaded before it is asked for, so that administration does not pay for producing.
"""

# Before anything imports kio: keeps hypothesis, which kio would load, out of the process.
import moldau.wire.schema  # noqa: F401

# isort: split
from typing import TYPE_CHECKING, Any

from moldau.records.source import prefer_source_if_asked

prefer_source_if_asked(__name__)

if TYPE_CHECKING:
    from moldau.client.admin import Admin as Admin
    from moldau.client.admin import AlterOperation as AlterOperation
    from moldau.client.admin import ClusterDescription as ClusterDescription
    from moldau.client.admin import ConfigChange as ConfigChange
    from moldau.client.admin import ConfigEntry as ConfigEntry
    from moldau.client.admin import ConfigResource as ConfigResource
    from moldau.client.admin import ConfigSource as ConfigSource
    from moldau.client.admin import ConfigType as ConfigType
    from moldau.client.admin import CreatedTopic as CreatedTopic
    from moldau.client.admin import LogDir as LogDir
    from moldau.client.admin import NewTopic as NewTopic
    from moldau.client.admin import OffsetAndTimestamp as OffsetAndTimestamp
    from moldau.client.admin import OffsetSpec as OffsetSpec
    from moldau.client.admin import Outcome as Outcome
    from moldau.client.admin import ResourceType as ResourceType
    from moldau.client.admin import raise_first_error as raise_first_error
    from moldau.client.client import Client as Client
    from moldau.client.cluster import Cluster as Cluster
    from moldau.client.errors import ClientError as ClientError
    from moldau.client.errors import ConfigError as ConfigError
    from moldau.client.errors import ConnectionLostError as ConnectionLostError
    from moldau.client.errors import NoBrokersError as NoBrokersError
    from moldau.client.errors import TimedOutError as TimedOutError
    from moldau.client.errors import UnknownTopicError as UnknownTopicError
    from moldau.client.errors import UnsupportedApiError as UnsupportedApiError
    from moldau.client.metadata import ClusterMetadata as ClusterMetadata
    from moldau.client.metadata import PartitionInfo as PartitionInfo
    from moldau.client.metadata import TopicInfo as TopicInfo

_PLACES = {
    "Client": "client",
    "Cluster": "cluster",
    "ClusterMetadata": "metadata",
    "PartitionInfo": "metadata",
    "TopicInfo": "metadata",
}
"""Where a name is that is not in ``admin`` or ``errors``."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    place = _PLACES.get(name, "errors" if name.endswith("Error") else "admin")
    if name.startswith("_") or place == name:
        raise AttributeError(name)
    return getattr(import_module(f"moldau.client.{place}"), name)
