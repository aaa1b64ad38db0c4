"""Administration: topics, settings, groups, records, replicas, the cluster.

``AsyncAdmin`` has every request; ``Admin`` is the same, blocking.
"""

from moldau.client.admin.admin import Admin
from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupMember,
    MemberToRemove,
    PartitionLag,
)
from moldau.client.admin.types import (
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    CreatedTopic,
    FeatureLevels,
    FeatureUpgrade,
    LogDir,
    NewTopic,
    Outcome,
    ProducerState,
    QuorumDescription,
    QuorumReplica,
    Reassignment,
    Replica,
    ScramCredential,
    ScramDeletion,
    ScramUpsertion,
    TransactionDescription,
    TransactionListing,
    raise_first_error,
)
from moldau.client.offsets import OffsetSpec
from moldau.config.altering.operations import AlterOperation
from moldau.config.describing.entry import ConfigEntry, ConfigSource
from moldau.config.types import ConfigType, ResourceType
from moldau.model import ElectionType, OffsetAndMetadata, OffsetAndTimestamp
from moldau.quotas.entity import ClientQuota, ClientQuotaEntity
from moldau.quotas.filter import ClientQuotaFilter, ClientQuotaFilterComponent, MatchType

__all__ = [
    "Admin",
    "AlterOperation",
    "AsyncAdmin",
    "ClientQuota",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClientQuotaFilterComponent",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigType",
    "CreatedTopic",
    "ElectionType",
    "FeatureLevels",
    "FeatureUpgrade",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LogDir",
    "MatchType",
    "MemberToRemove",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "Outcome",
    "PartitionLag",
    "ProducerState",
    "QuorumDescription",
    "QuorumReplica",
    "Reassignment",
    "Replica",
    "ResourceType",
    "ScramCredential",
    "ScramDeletion",
    "ScramUpsertion",
    "TransactionDescription",
    "TransactionListing",
    "raise_first_error",
]
