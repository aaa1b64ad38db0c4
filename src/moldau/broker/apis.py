"""The table of the APIs that a broker serves: one row each.

A row says where the handler is, how frames become requests and answers, what a request may cost,
who may ask and who decides. Which versions are served stands in ``moldau.wire.api``; a test
compares the two, and ``docs/protocol.md`` with both.

A handler is a module of ``moldau.broker.handlers`` with

- ``handle(request)``, which returns the response, in the newest shape of the API; or an awaitable
  of it; or None, if there is none; or raises KafkaError, if the whole request fails;
- ``error_answer(request, error)``, the response to a request that fails as a whole, as Kafka gives
  it in this version; None closes the connection;
- ``decode`` and ``encode`` as well, if the codec is the module's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from moldau.broker.acls import AclOperation, AclResource, Permission
from moldau.broker.pieces import Doubles, Pieces, pieces
from moldau.wire.api import ApiKey


class Codec(Enum):
    """How requests are read and answers are written, in the words of ``docs/protocol.md``."""

    SCHEMA = "from the schema"
    """By ``moldau.wire.messages``; a peer's next request waits until the others had their turn."""
    HAND_WRITTEN = "hand-written"
    """By the handler's module, for the hottest requests: they are looked at where they were read,
    their answers may be parts of files, many of them share a turn, and ``handle`` returns no
    awaitable but may return a ``Pending`` of the encoded answer.
    """
    PREPARED = "prepared once per version"
    """By the handler's module: only the correlation id differs. As hot as the hand-written ones."""


class CostClass(Enum):
    """What the work of a request grows with."""

    CHEAP = auto()
    """With nothing: microseconds, whatever the request says."""
    PER_ITEM = auto()
    """With the items that the request names."""
    HEAVY = auto()
    """With what the broker holds; or it waits for disks or for the controller."""


class Cost(NamedTuple):
    """What a request may cost, and why."""

    of: CostClass
    reason: str


@dataclass(frozen=True, slots=True)
class Api:
    handler: str
    """The name of the module."""
    cost: Cost
    permissions: tuple[Permission, ...] = ()
    """What security will ask for, as Kafka documents it; an API that checks two kinds of resources
    has both.
    """
    codec: Codec = Codec.SCHEMA
    needs_controller: bool = False
    """The controller decides: on another broker the request is carried on to it."""
    brokers_only: bool = False
    """Only brokers of this cluster may ask."""
    has_timeout: bool = False
    """The request says how long it may take; after that it is answered with REQUEST_TIMED_OUT,
    whatever comes of it.
    """
    pieces: Pieces | None = None
    """How a request with very many items is executed: as several, see ``large_requests.py``."""
    is_cached: bool = False
    """Encoded answers are kept by the bytes of their request until the metadata changes."""


CHEAP, PER_ITEM, HEAVY = CostClass.CHEAP, CostClass.PER_ITEM, CostClass.HEAVY

_READ_TOPIC = Permission(AclOperation.READ, AclResource.TOPIC)
_WRITE_TOPIC = Permission(AclOperation.WRITE, AclResource.TOPIC)
_CREATE_TOPIC = Permission(AclOperation.CREATE, AclResource.TOPIC)
_ALTER_TOPIC = Permission(AclOperation.ALTER, AclResource.TOPIC)
_DELETE_TOPIC = Permission(AclOperation.DELETE, AclResource.TOPIC)
_DESCRIBE_TOPIC = Permission(AclOperation.DESCRIBE, AclResource.TOPIC)
_READ_GROUP = Permission(AclOperation.READ, AclResource.GROUP)
_DELETE_GROUP = Permission(AclOperation.DELETE, AclResource.GROUP)
_DESCRIBE_GROUP = Permission(AclOperation.DESCRIBE, AclResource.GROUP)
_CREATE_CLUSTER = Permission(AclOperation.CREATE, AclResource.CLUSTER)
_ALTER_CLUSTER = Permission(AclOperation.ALTER, AclResource.CLUSTER)
_DESCRIBE_CLUSTER = Permission(AclOperation.DESCRIBE, AclResource.CLUSTER)
_DESCRIBE_TOKEN = Permission(AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN)
_CREATE_TOKENS = Permission(AclOperation.CREATE_TOKENS, AclResource.USER)
_CLUSTER_ACTION = Permission(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
_IDEMPOTENT_WRITE = Permission(AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER)
_WRITE_TRANSACTION = Permission(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID)
_DESCRIBE_TRANSACTION = Permission(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID)
_DESCRIBE_CONFIGS = tuple(
    Permission(AclOperation.DESCRIBE_CONFIGS, resource)
    for resource in (AclResource.CLUSTER, AclResource.TOPIC, AclResource.GROUP)
)
_ALTER_CONFIGS = tuple(
    Permission(AclOperation.ALTER_CONFIGS, resource)
    for resource in (AclResource.CLUSTER, AclResource.TOPIC, AclResource.GROUP)
)

APIS: Final[dict[ApiKey, Api]] = {
    ApiKey.PRODUCE: Api(
        "produce",
        Cost(PER_ITEM, "one append for each partition; records are read only to be recompressed"),
        (_WRITE_TRANSACTION, _IDEMPOTENT_WRITE, _WRITE_TOPIC),
        codec=Codec.HAND_WRITTEN,
    ),
    ApiKey.FETCH: Api(
        "fetch",
        Cost(PER_ITEM, "one look into an index for each partition of the session"),
        (_CLUSTER_ACTION, _READ_TOPIC),
        codec=Codec.HAND_WRITTEN,
    ),
    ApiKey.LIST_OFFSETS: Api(
        "list_offsets",
        Cost(PER_ITEM, "a time is looked up in an index and then in batches of the log"),
        (_DESCRIBE_TOPIC,),
        pieces=pieces("topics.partitions", doubles=Doubles.REFUSED),
    ),
    ApiKey.METADATA: Api(
        "metadata",
        Cost(HEAVY, "may describe all topics, and may create those that are missing"),
        (_DESCRIBE_TOPIC, _CREATE_CLUSTER, _CREATE_TOPIC),
        is_cached=True,
        pieces=pieces("topics", doubles=Doubles.ONCE),
    ),
    ApiKey.OFFSET_COMMIT: Api(
        "offset_commit",
        Cost(PER_ITEM, "a record for each partition"),
        (_READ_GROUP, _READ_TOPIC),
        pieces=pieces("topics.partitions"),
    ),
    ApiKey.OFFSET_FETCH: Api(
        "offset_fetch",
        Cost(HEAVY, "may ask for everything that groups have committed"),
        (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
        pieces=pieces(
            "groups.topics.partition_indexes",
            "groups.topics.partitions",
            doubles=Doubles.ONCE_IF_LARGE,
        ),
    ),
    ApiKey.FIND_COORDINATOR: Api(
        "find_coordinator",
        Cost(PER_ITEM, "a hash for each key; the first one creates an internal topic"),
        (_DESCRIBE_GROUP, _DESCRIBE_TRANSACTION),
        pieces=pieces("coordinator_keys", "coordinators"),
    ),
    ApiKey.JOIN_GROUP: Api(
        "join_group",
        Cost(PER_ITEM, "the last member to join has all members' metadata written and answered"),
        (_READ_GROUP,),
    ),
    ApiKey.HEARTBEAT: Api("heartbeat", Cost(CHEAP, "moves one deadline"), (_READ_GROUP,)),
    ApiKey.LEAVE_GROUP: Api(
        "leave_group",
        Cost(PER_ITEM, "each member is taken out of its group"),
        (_READ_GROUP,),
        pieces=pieces("members"),
    ),
    ApiKey.SYNC_GROUP: Api(
        "sync_group", Cost(PER_ITEM, "the leader's has an assignment per member"), (_READ_GROUP,)
    ),
    ApiKey.DESCRIBE_GROUPS: Api(
        "describe_groups",
        Cost(PER_ITEM, "all members of each group"),
        (_DESCRIBE_GROUP,),
        pieces=pieces("groups", doubles=Doubles.ONCE),
    ),
    ApiKey.LIST_GROUPS: Api(
        "list_groups",
        Cost(HEAVY, "all groups of this broker"),
        (_DESCRIBE_CLUSTER, _DESCRIBE_GROUP),
    ),
    ApiKey.API_VERSIONS: Api(
        "api_versions", Cost(CHEAP, "the answer lies ready"), codec=Codec.PREPARED
    ),
    ApiKey.CREATE_TOPICS: Api(
        "create_topics",
        Cost(HEAVY, "the controller writes the topics, and this broker makes their logs"),
        (_CREATE_CLUSTER, _CREATE_TOPIC),
        needs_controller=True,
        has_timeout=True,
        pieces=pieces("topics", doubles=Doubles.REFUSED),
    ),
    ApiKey.DELETE_TOPICS: Api(
        "delete_topics",
        Cost(HEAVY, "the controller writes, and this broker renames the logs"),
        (_DELETE_TOPIC,),
        needs_controller=True,
        has_timeout=True,
        pieces=pieces("topics", "responses", doubles=Doubles.REFUSED),
    ),
    ApiKey.DELETE_RECORDS: Api(
        "delete_records",
        Cost(HEAVY, "waits for the disk that the new log starts are written to"),
        (_DELETE_TOPIC,),
        has_timeout=True,
        pieces=pieces("topics.partitions"),
    ),
    ApiKey.INIT_PRODUCER_ID: Api(
        "init_producer_id",
        Cost(CHEAP, "counts; one in a thousand asks the controller for a block of ids"),
        (_WRITE_TRANSACTION, _IDEMPOTENT_WRITE),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(
        "offset_for_leader_epoch",
        Cost(PER_ITEM, "a search in the list of epochs for each partition"),
        (_CLUSTER_ACTION, _DESCRIBE_TOPIC),
        pieces=pieces("topics.partitions"),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Api(
        "add_partitions_to_txn",
        Cost(PER_ITEM, "a record for each transaction, with all partitions that it has"),
        (_CLUSTER_ACTION, _WRITE_TRANSACTION, _WRITE_TOPIC),
        pieces=pieces(
            "transactions.topics.partitions",
            "results_by_transaction.topic_results.results_by_partition",
        ),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Api(
        "add_offsets_to_txn",
        Cost(CHEAP, "a record"),
        (_WRITE_TRANSACTION, _READ_GROUP),
    ),
    ApiKey.END_TXN: Api(
        "end_txn", Cost(CHEAP, "a record; the markers come later"), (_WRITE_TRANSACTION,)
    ),
    ApiKey.WRITE_TXN_MARKERS: Api(
        "write_txn_markers",
        Cost(PER_ITEM, "one append for each partition"),
        (_ALTER_CLUSTER, _CLUSTER_ACTION),
        pieces=pieces("markers.topics.partition_indexes", "markers.topics.partitions"),
    ),
    ApiKey.TXN_OFFSET_COMMIT: Api(
        "txn_offset_commit",
        Cost(PER_ITEM, "a record for each partition"),
        (_WRITE_TRANSACTION, _READ_GROUP, _READ_TOPIC),
        pieces=pieces("topics.partitions"),
    ),
    ApiKey.DESCRIBE_ACLS: Api(
        "describe_acls", Cost(CHEAP, "there is no authorizer to ask"), (_DESCRIBE_CLUSTER,)
    ),
    ApiKey.CREATE_ACLS: Api(
        "create_acls",
        Cost(PER_ITEM, "a refusal for each"),
        (_ALTER_CLUSTER,),
        pieces=pieces("creations", "results"),
    ),
    ApiKey.DELETE_ACLS: Api(
        "delete_acls",
        Cost(PER_ITEM, "a refusal for each"),
        (_ALTER_CLUSTER,),
        pieces=pieces("filters", "filter_results"),
    ),
    ApiKey.DESCRIBE_CONFIGS: Api(
        "describe_configs",
        Cost(PER_ITEM, "up to some hundred settings for each resource"),
        _DESCRIBE_CONFIGS,
        pieces=pieces("resources", "results", doubles=Doubles.ONCE),
    ),
    ApiKey.ALTER_CONFIGS: Api(
        "alter_configs",
        Cost(HEAVY, "the controller checks and writes the settings of each resource"),
        _ALTER_CONFIGS,
        needs_controller=True,
        pieces=pieces("resources", "responses", doubles=Doubles.REFUSED),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Api(
        "alter_replica_log_dirs",
        Cost(HEAVY, "makes a future log on disk for each replica"),
        (_ALTER_CLUSTER,),
        pieces=pieces("dirs.topics.partitions", "results.partitions"),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Api(
        "describe_log_dirs",
        Cost(HEAVY, "may describe every replica, and asks the disks how full they are"),
        (_DESCRIBE_CLUSTER,),
    ),
    ApiKey.CREATE_PARTITIONS: Api(
        "create_partitions",
        Cost(HEAVY, "the controller writes the partitions, and this broker makes their logs"),
        (_ALTER_TOPIC,),
        needs_controller=True,
        has_timeout=True,
        pieces=pieces("topics", "results", doubles=Doubles.REFUSED),
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: Api(
        "create_delegation_token", Cost(CHEAP, "is refused"), (_CREATE_TOKENS,)
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Api("renew_delegation_token", Cost(CHEAP, "is refused")),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Api("expire_delegation_token", Cost(CHEAP, "is refused")),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Api(
        "describe_delegation_token", Cost(CHEAP, "is refused"), (_DESCRIBE_TOKEN,)
    ),
    ApiKey.DELETE_GROUPS: Api(
        "delete_groups",
        Cost(PER_ITEM, "a tombstone for everything that each group has stored"),
        (_DELETE_GROUP,),
        pieces=pieces("groups_names", "results"),
    ),
    ApiKey.ELECT_LEADERS: Api(
        "elect_leaders",
        Cost(HEAVY, "may be for every partition; the controller writes who leads"),
        (_ALTER_CLUSTER,),
        needs_controller=True,
        has_timeout=True,
        pieces=pieces("topic_partitions.partitions", "replica_election_results.partition_result"),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api(
        "incremental_alter_configs",
        Cost(HEAVY, "the controller checks and writes the settings of each resource"),
        _ALTER_CONFIGS,
        needs_controller=True,
        pieces=pieces("resources", "responses", doubles=Doubles.REFUSED),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api(
        "alter_partition_reassignments",
        Cost(PER_ITEM, "the controller checks the replicas of each partition"),
        (_ALTER_CLUSTER,),
        needs_controller=True,
        has_timeout=True,
        pieces=pieces("topics.partitions", "responses.partitions"),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Api(
        "list_partition_reassignments",
        Cost(HEAVY, "the controller looks at every partition"),
        (_DESCRIBE_CLUSTER,),
        needs_controller=True,
        has_timeout=True,
        pieces=pieces("topics.partition_indexes", "topics.partitions", doubles=Doubles.ONCE),
    ),
    ApiKey.OFFSET_DELETE: Api(
        "offset_delete",
        Cost(PER_ITEM, "a tombstone for each partition"),
        (_DELETE_GROUP, _READ_TOPIC),
        pieces=pieces("topics.partitions"),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Api(
        "describe_client_quotas",
        Cost(HEAVY, "looks at every quota there is"),
        (Permission(AclOperation.DESCRIBE_CONFIGS, AclResource.CLUSTER),),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Api(
        "alter_client_quotas",
        Cost(HEAVY, "the controller checks and writes the quotas of each entity"),
        (Permission(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER),),
        needs_controller=True,
        pieces=pieces("entries", doubles=Doubles.REFUSED),
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Api(
        "describe_user_scram_credentials",
        Cost(PER_ITEM, "a refusal for each user"),
        (_DESCRIBE_CLUSTER,),
        pieces=pieces("users", "results", doubles=Doubles.REFUSED),
    ),
    ApiKey.UPDATE_FEATURES: Api(
        "update_features", Cost(CHEAP, "the first of them is refused"), (_ALTER_CLUSTER,)
    ),
    ApiKey.DESCRIBE_CLUSTER: Api(
        "describe_cluster", Cost(CHEAP, "a handful of brokers"), (_DESCRIBE_CLUSTER,)
    ),
    ApiKey.DESCRIBE_PRODUCERS: Api(
        "describe_producers",
        Cost(PER_ITEM, "every producer that each partition remembers"),
        (_READ_TOPIC,),
        pieces=pieces("topics.partition_indexes", "topics.partitions", doubles=Doubles.ONCE),
    ),
    ApiKey.UNREGISTER_BROKER: Api(
        "unregister_broker", Cost(CHEAP, "is refused"), (_ALTER_CLUSTER,)
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Api(
        "describe_transactions",
        Cost(PER_ITEM, "all partitions of each transaction"),
        (_DESCRIBE_TRANSACTION,),
        pieces=pieces("transactional_ids", "transaction_states"),
    ),
    ApiKey.LIST_TRANSACTIONS: Api(
        "list_transactions",
        Cost(HEAVY, "looks at every transactional id"),
        (_DESCRIBE_TRANSACTION,),
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api(
        "consumer_group_heartbeat",
        Cost(PER_ITEM, "mostly a deadline; with a change, the assignment of the whole group"),
        (_READ_GROUP,),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api(
        "consumer_group_describe",
        Cost(PER_ITEM, "all members of each group"),
        (_DESCRIBE_GROUP,),
        pieces=pieces("group_ids", "groups", doubles=Doubles.ONCE),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Api(
        "list_config_resources",
        Cost(HEAVY, "may name every topic"),
        (Permission(AclOperation.DESCRIBE_CONFIGS, AclResource.CLUSTER),),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api(
        "describe_topic_partitions",
        Cost(PER_ITEM, "a page, of max.request.partition.size.limit partitions at most"),
        (_DESCRIBE_TOPIC,),
    ),
}
