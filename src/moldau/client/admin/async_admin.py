"""Administration of a cluster, every request in one place.

Requests about many items answer one :class:`Outcome` per item, in the order asked: one bad name
does not hide what became of the others. What a broker does not serve raises
``UnsupportedApiError``. The modules behind the methods are imported on first use, because the
messages of three dozen APIs cost time that a program which sends two of them should not pay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from moldau.client.admin.calls import Caller
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
    Reassignment,
    Replica,
    ScramCredential,
    ScramDeletion,
    ScramUpsertion,
    TransactionDescription,
    TransactionListing,
)
from moldau.client.closing import AsyncClosing
from moldau.client.cluster import Cluster
from moldau.client.metadata import TopicInfo
from moldau.config.describing.entry import ConfigEntry
from moldau.config.types import ResourceType
from moldau.machine import Machine
from moldau.model import ElectionType, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from moldau.quotas.entity import ClientQuota, ClientQuotaEntity
from moldau.quotas.filter import ClientQuotaFilter

if TYPE_CHECKING:
    from moldau.client.admin.group_types import (
        GroupDescription,
        GroupListing,
        MemberToRemove,
        PartitionLag,
    )


class AsyncAdmin(AsyncClosing):
    """``async with AsyncAdmin(bootstrap_servers="127.0.0.1:9092") as admin: …``.

    A call as a whole, with all its attempts, may take ``default.api.timeout.ms``.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        machine: Machine | None = None,
        **settings: object,
    ) -> None:
        from moldau.client.settings import AdminSettings

        parsed = AdminSettings(config, **settings)
        self._own_cluster = True
        self._caller = Caller(Cluster(parsed, machine), parsed.default_api_timeout_ms / 1000)

    @classmethod
    def over(cls, cluster: Cluster, *, timeout: float | None = None) -> Self:
        """Administration through a cluster that somebody else opens and closes."""
        admin = cls.__new__(cls)
        admin._own_cluster = False
        admin._caller = Caller(cluster, cluster.request_timeout if timeout is None else timeout)
        return admin

    @property
    def machine(self) -> Machine:
        """Where time and chance come from."""
        return self._caller.cluster.machine

    async def start(self) -> None:
        """Reach the cluster; calls do it by themselves."""
        await self._caller.cluster.start()

    async def close(self) -> None:
        if self._own_cluster:
            await self._caller.cluster.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._caller.cluster.settings.servers}>"

    # -- topics

    async def list_topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """All topics by name, those of the cluster's own only on demand."""
        from moldau.client.admin import topics

        return await topics.list_topics(self._caller, internal)

    async def describe_topics(self, names: Collection[str]) -> list[Outcome[TopicInfo]]:
        """Partitions, leaders and replicas of topics."""
        from moldau.client.admin import topics

        return await topics.describe_topics(self._caller, names)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[Outcome[CreatedTopic]]:
        """Create topics, or find out whether they could be created."""
        from moldau.client.admin.topics import create_topics

        return await create_topics(self._caller, topics, validate_only)

    async def delete_topics(self, names: Sequence[str]) -> list[Outcome[str]]:
        """Delete topics with all their records."""
        from moldau.client.admin import topics

        return await topics.delete_topics(self._caller, names)

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> list[Outcome[int]]:
        """Grow topics to the given numbers of partitions."""
        from moldau.client.admin import topics

        return await topics.create_partitions(self._caller, counts, validate_only)

    # -- settings

    async def list_config_resources(
        self, types: Collection[ResourceType] = ()
    ) -> list[ConfigResource]:
        """What has settings: topics, brokers, and groups with settings of their own; or only these
        ``types``.
        """
        from moldau.client.admin import configs

        return await configs.list_config_resources(self._caller, types)

    async def describe_configs(
        self,
        resources: Sequence[ConfigResource],
        *,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> list[Outcome[list[ConfigEntry]]]:
        """The settings of topics, brokers and groups, and where each value comes from."""
        from moldau.client.admin import configs

        return await configs.describe_configs(self._caller, resources, synonyms, documentation)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[Outcome[ConfigResource]]:
        """Change single settings, leaving the others alone (IncrementalAlterConfigs)."""
        from moldau.client.admin import configs

        return await configs.alter_configs(self._caller, changes, validate_only)

    # -- offsets and records

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after each timestamp; ``OffsetSpec`` has the special ones."""
        from moldau.client.offsets import list_offsets

        return await list_offsets(
            self._caller.cluster,
            timestamps,
            read_committed=read_committed,
            within=self._caller.within,
        )

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> list[Outcome[int]]:
        """Drop records below these offsets (-1: all); returns the new start of each log."""
        from moldau.client.admin import records

        return await records.delete_records(self._caller, before)

    async def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> list[Outcome[list[ProducerState]]]:
        """The idempotent producers that partition leaders remember."""
        from moldau.client.admin import records

        return await records.describe_producers(self._caller, partitions)

    # -- groups

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """All groups of the cluster by name; brokers filter by state and type."""
        from moldau.client.admin import groups

        return await groups.list_groups(self._caller, states, types)

    async def describe_groups(self, groups: Sequence[str]) -> list[Outcome[GroupDescription]]:
        """State and members of groups of both types."""
        from moldau.client.admin.groups import describe_groups

        return await describe_groups(self._caller, groups)

    async def delete_groups(self, groups: Sequence[str]) -> list[Outcome[str]]:
        """Delete groups that have no members, with their offsets."""
        from moldau.client.admin.groups import delete_groups

        return await delete_groups(self._caller, groups)

    async def remove_group_members(
        self, group: str, members: Sequence[MemberToRemove], *, reason: str | None = None
    ) -> list[Outcome[MemberToRemove]]:
        """Make members leave a classic group; static ones do not leave by themselves."""
        from moldau.client.admin import groups

        return await groups.remove_members(self._caller, group, members, reason)

    async def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that a group has committed."""
        from moldau.client.admin import group_offsets

        return await group_offsets.fetch(self._caller, group)

    async def group_lag(
        self, group: str, partitions: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, PartitionLag]:
        """How far a group is behind, in records and in time, where it has committed.

        ``partitions`` are included even if nothing is committed there.
        """
        from moldau.client.admin import lag

        return await lag.group_lag(self._caller, group, partitions)

    async def partition_lag(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PartitionLag]:
        """How far whoever reads on from these offsets is behind, in records and in time."""
        from moldau.client.admin import lag

        positions = {place: OffsetAndMetadata(offset) for place, offset in offsets.items()}
        return await lag.partition_lag(self._caller.cluster, positions)

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> list[Outcome[int]]:
        """Commit for a group that has no members."""
        from moldau.client.admin import group_offsets

        return await group_offsets.commit(self._caller, group, offsets)

    async def delete_group_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> list[Outcome[TopicPartition]]:
        """Forget offsets of topics to which no member subscribes."""
        from moldau.client.admin import group_offsets

        return await group_offsets.delete(self._caller, group, partitions)

    # -- cluster, disks, replicas

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Cluster id, controller and brokers."""
        from moldau.client.admin import describe_cluster

        return await describe_cluster.describe_cluster(self._caller, include_fenced)

    async def describe_features(self) -> dict[str, FeatureLevels]:
        """The features of the cluster with their levels (KIP-584)."""
        from moldau.client.admin import describe_cluster

        return await describe_cluster.describe_features(self._caller)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Settle the cluster on other levels; all of them or none."""
        from moldau.client.admin import describe_cluster

        await describe_cluster.update_features(self._caller, levels, upgrade, validate_only)

    async def describe_metadata_quorum(self) -> QuorumDescription:
        """The controllers of a KRaft cluster (KIP-595)."""
        from moldau.client.admin import describe_cluster

        return await describe_cluster.describe_quorum(self._caller)

    async def describe_log_dirs(self, node_ids: Collection[int] | None = None) -> list[LogDir]:
        """The log directories of these brokers (of all by default), with sizes by partition."""
        from moldau.client.admin import log_dirs

        return await log_dirs.describe_log_dirs(self._caller, node_ids)

    async def alter_replica_log_dirs(self, moves: Mapping[Replica, str]) -> list[Outcome[str]]:
        """Move replicas to other log directories of their brokers; the answer does not wait."""
        from moldau.client.admin import log_dirs

        return await log_dirs.alter_replica_log_dirs(self._caller, moves)

    async def elect_leaders(
        self,
        kind: ElectionType = ElectionType.PREFERRED,
        partitions: Collection[TopicPartition] | None = None,
    ) -> list[Outcome[TopicPartition]]:
        """Elect leaders (of all partitions by default); no error where none was needed."""
        from moldau.client.admin.partitions import elect_leaders

        return await elect_leaders(self._caller, kind, partitions)

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> list[Outcome[TopicPartition]]:
        """Move partitions to these replicas, the first preferred; None cancels a move."""
        from moldau.client.admin import partitions

        return await partitions.alter_reassignments(self._caller, targets)

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way."""
        from moldau.client.admin.partitions import list_reassignments

        return await list_reassignments(self._caller, partitions)

    # -- transactions

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that the cluster knows.

        ``pattern``, an RE2 expression for whole ids, saves what need not be sent; brokers before
        Apache Kafka 4.1 do not look at it (KIP-1152).
        """
        from moldau.client.admin import transactions

        return await transactions.list_transactions(self._caller, states, producer_ids, pattern)

    async def describe_transactions(
        self, transactional_ids: Collection[str]
    ) -> list[Outcome[TransactionDescription]]:
        """State, producer and partitions of transactions."""
        from moldau.client.admin import transactions

        return await transactions.describe_transactions(self._caller, transactional_ids)

    # -- quotas

    async def describe_client_quotas(
        self,
        wanted: ClientQuotaFilter = ClientQuotaFilter(),  # noqa: B008 - it never changes
    ) -> list[ClientQuota]:
        """The quotas of users, clients and addresses that match; all of them by default."""
        from moldau.client.admin import client_quotas

        return await client_quotas.describe_client_quotas(self._caller, wanted)

    async def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> list[Outcome[ClientQuotaEntity]]:
        """Set quotas, or remove them (None); one outcome for each entity."""
        from moldau.client.admin import client_quotas

        return await client_quotas.alter_client_quotas(self._caller, changes, validate_only)

    # -- users

    async def describe_user_scram_credentials(
        self, users: Collection[str] | None = None
    ) -> list[Outcome[tuple[ScramCredential, ...]]]:
        """Who can log in with SCRAM, of all users by default."""
        from moldau.client.admin import scram

        return await scram.describe_credentials(self._caller, users)

    async def alter_user_scram_credentials(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> list[Outcome[str]]:
        """Give users passwords for SCRAM, or take them away; one outcome for each user."""
        from moldau.client.admin import scram

        return await scram.alter_credentials(self._caller, changes)
