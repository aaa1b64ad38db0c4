"""Where the shape of a message changed between versions: rules beyond names and defaults.

*Lifting* turns the fields of an old version, by name, into those of the newest; *lowering* turns a
newest message into an object with the attributes of the old version. Most APIs need neither: they
only ever added fields. ``tests/unit/wire/test_lifting.py`` finds every field that a version has and
the newest has not, and demands a rule here or a reason in :data:`DROPPED`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.errors import EncodeError
from moldau.wire.schema import Direction, fields_of, newest_class

Lift = Callable[[dict[str, Any]], None]
Lower = Callable[[Any], Any]

DROPPED: Final[dict[tuple[ApiKey, Direction], frozenset[str]]] = {
    # Versions 8 to 10 carried these; DescribeCluster took over. Answered as "not asked for".
    (ApiKey.METADATA, "request"): frozenset({"include_cluster_authorized_operations"}),
    (ApiKey.METADATA, "response"): frozenset({"cluster_authorized_operations"}),
    # Messages of the KRaft quorum, which neither side here speaks in old versions.
    (ApiKey.END_QUORUM_EPOCH, "request"): frozenset({"preferred_successors"}),
    (ApiKey.ALTER_PARTITION, "request"): frozenset({"new_isr"}),
    (ApiKey.UPDATE_FEATURES, "request"): frozenset({"allow_downgrade"}),
    (ApiKey.UPDATE_FEATURES, "response"): frozenset({"results"}),
}
"""Fields of old versions that the newest has not, and that nobody here needs."""


def _entity(api: ApiKey, direction: Direction, *path: str) -> type:
    """The newest class of a nested entity."""
    found = newest_class(api, direction)
    for name in path:
        (entity,) = (spec.entity for spec in fields_of(found) if spec.name == name)
        assert entity is not None
        found = entity
    return found


def _only(items: Any, what: str) -> Any:
    if items is None or len(items) != 1:
        raise EncodeError(f"this version has room for one of {what}")
    return items[0]


def _copy(target: type, source: Any) -> Any:
    """The same fields in another class."""
    return target(**{spec.name: getattr(source, spec.name) for spec in fields_of(target)})


# -- Metadata: version 0 says "all topics" with an empty array, later ones with null


def _lift_metadata_request(values: dict[str, Any]) -> None:
    values["topics"] = values["topics"] or None


def _lower_metadata_request(request: Any) -> Any:
    return SimpleNamespace(topics=() if request.topics is None else request.topics)


# -- FindCoordinator: one key before version 4 (KIP-699)


def _lift_find_coordinator_request(values: dict[str, Any]) -> None:
    values["coordinator_keys"] = (values["key"],)


def _lower_find_coordinator_request(request: Any) -> Any:
    return SimpleNamespace(
        key=_only(request.coordinator_keys, "coordinator_keys"), key_type=request.key_type
    )


def _lift_find_coordinator_response(values: dict[str, Any]) -> None:
    coordinator = _entity(ApiKey.FIND_COORDINATOR, "response", "coordinators")
    values["coordinators"] = (
        coordinator(
            key="",  # the old answer does not repeat it
            node_id=values["node_id"],
            host=values["host"],
            port=values["port"],
            error_code=values["error_code"],
            error_message=values.get("error_message"),
        ),
    )


def _lower_find_coordinator_response(response: Any) -> Any:
    one = _only(response.coordinators, "coordinators")
    return SimpleNamespace(
        throttle_time=response.throttle_time,
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


# -- LeaveGroup: one member before version 3 (KIP-345)


def _lift_leave_group_request(values: dict[str, Any]) -> None:
    member = _entity(ApiKey.LEAVE_GROUP, "request", "members")
    values["members"] = (member(member_id=values["member_id"]),)


def _lower_leave_group_request(request: Any) -> Any:
    member = _only(request.members, "members")
    return SimpleNamespace(group_id=request.group_id, member_id=member.member_id)


def _lower_leave_group_response(response: Any) -> Any:
    # The one member's own error is all that the old answer can say.
    error = response.error_code
    if not error and response.members:
        error = response.members[0].error_code
    return SimpleNamespace(throttle_time=response.throttle_time, error_code=error)


# -- DeleteTopics: plain names before version 6 (KIP-516)


def _lift_delete_topics_request(values: dict[str, Any]) -> None:
    topic = _entity(ApiKey.DELETE_TOPICS, "request", "topics")
    values["topics"] = tuple(topic(name=name, topic_id=None) for name in values["topic_names"])


def _lower_delete_topics_request(request: Any) -> Any:
    return SimpleNamespace(
        topic_names=tuple(topic.name for topic in request.topics), timeout=request.timeout
    )


# -- OffsetFetch: one group before version 8 (KIP-709)


def _lift_offset_fetch_request(values: dict[str, Any]) -> None:
    group = _entity(ApiKey.OFFSET_FETCH, "request", "groups")
    topic = _entity(ApiKey.OFFSET_FETCH, "request", "groups", "topics")
    topics = values["topics"]
    if topics is not None:
        topics = tuple(
            topic(name=old.name, partition_indexes=old.partition_indexes) for old in topics
        )
    values["groups"] = (group(group_id=values["group_id"], topics=topics),)


def _lower_offset_fetch_request(request: Any) -> Any:
    group = _only(request.groups, "groups")
    return SimpleNamespace(
        group_id=group.group_id, topics=group.topics, require_stable=request.require_stable
    )


def _lift_offset_fetch_response(values: dict[str, Any]) -> None:
    group = _entity(ApiKey.OFFSET_FETCH, "response", "groups")
    topic = _entity(ApiKey.OFFSET_FETCH, "response", "groups", "topics")
    partition = _entity(ApiKey.OFFSET_FETCH, "response", "groups", "topics", "partitions")
    topics = tuple(
        topic(
            name=old.name,
            partitions=tuple(
                partition(
                    partition_index=part.partition_index,
                    committed_offset=part.committed_offset,
                    committed_leader_epoch=getattr(part, "committed_leader_epoch", -1),
                    metadata=part.metadata,
                    error_code=part.error_code,
                )
                for part in old.partitions
            ),
        )
        for old in values["topics"]
    )
    error = values.get("error_code", ErrorCode.NONE)
    values["groups"] = (group(group_id="", topics=topics, error_code=error),)


def _lower_offset_fetch_response(response: Any) -> Any:
    group = _only(response.groups, "groups")
    return SimpleNamespace(
        throttle_time=response.throttle_time, topics=group.topics, error_code=group.error_code
    )


# -- AddPartitionsToTxn: one transaction before version 4 (KIP-890)


def _lift_add_partitions_request(values: dict[str, Any]) -> None:
    transaction = _entity(ApiKey.ADD_PARTITIONS_TO_TXN, "request", "transactions")
    topic = _entity(ApiKey.ADD_PARTITIONS_TO_TXN, "request", "transactions", "topics")
    values["transactions"] = (
        transaction(
            transactional_id=values["v3_and_below_transactional_id"],
            producer_id=values["v3_and_below_producer_id"],
            producer_epoch=values["v3_and_below_producer_epoch"],
            topics=tuple(_copy(topic, old) for old in values["v3_and_below_topics"]),
        ),
    )


def _lower_add_partitions_request(request: Any) -> Any:
    transaction = _only(request.transactions, "transactions")
    return SimpleNamespace(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=transaction.topics,
    )


def _lift_add_partitions_response(values: dict[str, Any]) -> None:
    path = ("results_by_transaction", "topic_results", "results_by_partition")
    api = ApiKey.ADD_PARTITIONS_TO_TXN
    result = _entity(api, "response", *path[:1])
    topic = _entity(api, "response", *path[:2])
    partition = _entity(api, "response", *path)
    topics = tuple(
        topic(
            name=old.name,
            results_by_partition=tuple(_copy(partition, part) for part in old.results_by_partition),
        )
        for old in values["results_by_topic_v3_and_below"]
    )
    values["results_by_transaction"] = (result(transactional_id="", topic_results=topics),)


def _lower_add_partitions_response(response: Any) -> Any:
    transaction = _only(response.results_by_transaction, "results_by_transaction")
    return SimpleNamespace(
        throttle_time=response.throttle_time,
        results_by_topic_v3_and_below=transaction.topic_results,
    )


# (API, direction): (first version that has the newest shape, lift, lower)
_RULES: Final[dict[tuple[ApiKey, Direction], tuple[int, Lift | None, Lower | None]]] = {
    (ApiKey.METADATA, "request"): (1, _lift_metadata_request, _lower_metadata_request),
    (ApiKey.FIND_COORDINATOR, "request"): (
        4,
        _lift_find_coordinator_request,
        _lower_find_coordinator_request,
    ),
    (ApiKey.FIND_COORDINATOR, "response"): (
        4,
        _lift_find_coordinator_response,
        _lower_find_coordinator_response,
    ),
    (ApiKey.LEAVE_GROUP, "request"): (3, _lift_leave_group_request, _lower_leave_group_request),
    (ApiKey.LEAVE_GROUP, "response"): (3, None, _lower_leave_group_response),
    (ApiKey.DELETE_TOPICS, "request"): (
        6,
        _lift_delete_topics_request,
        _lower_delete_topics_request,
    ),
    (ApiKey.OFFSET_FETCH, "request"): (8, _lift_offset_fetch_request, _lower_offset_fetch_request),
    (ApiKey.OFFSET_FETCH, "response"): (
        8,
        _lift_offset_fetch_response,
        _lower_offset_fetch_response,
    ),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "request"): (
        4,
        _lift_add_partitions_request,
        _lower_add_partitions_request,
    ),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "response"): (
        4,
        _lift_add_partitions_response,
        _lower_add_partitions_response,
    ),
}


def lift_rule(api: ApiKey, version: int, direction: Direction) -> Lift | None:
    """How this version's fields become the newest's, if names and defaults are not enough."""
    first, lift, _ = _RULES.get((api, direction), (0, None, None))
    return lift if version < first else None


def lower_rule(api: ApiKey, version: int, direction: Direction) -> Lower | None:
    """How a newest message becomes one of this version, if dropping fields is not enough."""
    first, _, lower = _RULES.get((api, direction), (0, None, None))
    return lower if version < first else None
