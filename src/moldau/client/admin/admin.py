"""Administration for programs that do not use asyncio: ``AsyncAdmin``, blocking."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.blocking import BlockingClient, blocking


class Admin(BlockingClient[AsyncAdmin]):
    """``with Admin(bootstrap_servers="127.0.0.1:9092") as admin: admin.list_topics()``.

    May be used by several threads.
    """

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        super().__init__(AsyncAdmin(config, machine=None, **settings), "admin client")

    def close(self) -> None:
        self._thread.run(self._inner.close())
        self._thread.stop()

    def __repr__(self) -> str:
        return repr(self._inner).replace("AsyncAdmin", "Admin")

    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    list_config_resources = blocking(AsyncAdmin.list_config_resources)
    describe_configs = blocking(AsyncAdmin.describe_configs)
    alter_configs = blocking(AsyncAdmin.alter_configs)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    delete_records = blocking(AsyncAdmin.delete_records)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    list_groups = blocking(AsyncAdmin.list_groups)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    remove_group_members = blocking(AsyncAdmin.remove_group_members)
    list_group_offsets = blocking(AsyncAdmin.list_group_offsets)
    group_lag = blocking(AsyncAdmin.group_lag)
    partition_lag = blocking(AsyncAdmin.partition_lag)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)
    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    describe_features = blocking(AsyncAdmin.describe_features)
    update_features = blocking(AsyncAdmin.update_features)
    describe_metadata_quorum = blocking(AsyncAdmin.describe_metadata_quorum)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    alter_replica_log_dirs = blocking(AsyncAdmin.alter_replica_log_dirs)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(AsyncAdmin.alter_user_scram_credentials)
