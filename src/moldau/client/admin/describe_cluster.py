"""The cluster as a whole: brokers and controller, features, the KRaft quorum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import (
    ClusterDescription,
    FeatureLevels,
    FeatureUpgrade,
    QuorumDescription,
    QuorumReplica,
)
from moldau.model import Node
from moldau.request_errors import check
from moldau.version import __version__
from moldau.wire.api import ApiKey
from moldau.wire.make import make

_BROKERS: Final = 1
_METADATA_TOPIC: Final = "__cluster_metadata"


async def describe_cluster(caller: Caller, include_fenced: bool) -> ClusterDescription:
    request = make(
        DescribeClusterRequest,
        include_cluster_authorized_operations=False,
        endpoint_type=_BROKERS,
        include_fenced_brokers=include_fenced,
    )
    answer = await caller.any_broker(ApiKey.DESCRIBE_CLUSTER, request)
    check(answer.error_code, answer.error_message)
    return ClusterDescription(
        answer.cluster_id,
        answer.controller_id,
        tuple(Node(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers),
        frozenset(b.broker_id for b in answer.brokers if b.is_fenced),
    )


async def describe_features(caller: Caller) -> dict[str, FeatureLevels]:
    request = make(
        ApiVersionsRequest, client_software_name="moldau", client_software_version=__version__
    )
    answer = await caller.any_broker(ApiKey.API_VERSIONS, request)
    check(answer.error_code)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return {
        feature.name: FeatureLevels(
            feature.min_version, feature.max_version, finalized.get(feature.name)
        )
        for feature in sorted(answer.supported_features, key=lambda feature: feature.name)
    }


async def update_features(
    caller: Caller, levels: Mapping[str, int], upgrade: FeatureUpgrade, validate_only: bool
) -> None:
    request = make(
        UpdateFeaturesRequest,
        timeout=caller.timeout_ms,
        feature_updates=tuple(
            make(FeatureUpdateKey, feature=name, max_version_level=level, upgrade_type=int(upgrade))
            for name, level in levels.items()
        ),
        validate_only=validate_only,
    )
    answer = await caller.controller(ApiKey.UPDATE_FEATURES, request, lambda a: [a.error_code])
    check(answer.error_code, answer.error_message)


async def describe_quorum(caller: Caller) -> QuorumDescription:
    partition = make(PartitionData, partition_index=0)
    request = make(
        DescribeQuorumRequest,
        topics=(make(TopicData, topic_name=_METADATA_TOPIC, partitions=(partition,)),),
    )
    answer = await caller.any_broker(ApiKey.DESCRIBE_QUORUM, request)
    check(answer.error_code, answer.error_message)
    ((quorum,),) = (topic.partitions for topic in answer.topics)
    check(quorum.error_code, quorum.error_message)
    return QuorumDescription(
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        tuple(map(_replica, quorum.current_voters)),
        tuple(map(_replica, quorum.observers)),
    )


def _replica(state: Any) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        _known(state.last_fetch_timestamp),
        _known(state.last_caught_up_timestamp),
    )


def _known(timestamp: int) -> int | None:
    return None if timestamp < 0 else timestamp
