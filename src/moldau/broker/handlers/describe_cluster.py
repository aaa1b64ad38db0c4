"""DescribeCluster (key 60, versions 0-2): cluster id, controller and live brokers.

Behaviour: brokers are given with their address on the listener that the request came in by. Fenced
brokers do not exist here: a broker is either registered and live, or unknown.
Known deviations: none. The controllers' endpoint type (2) is answered with
MISMATCHED_ENDPOINT_TYPE, as on a Kafka broker's client listener.
"""

from __future__ import annotations

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse

from moldau.broker.acl_operations import CLUSTER_OPERATIONS
from moldau.broker.context import NO_THROTTLE, NOT_REQUESTED, RequestContext
from moldau.errors import ErrorCode
from moldau.wire.make import make

BROKERS = 1


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    broker = context.broker
    wants_brokers = request.endpoint_type == BROKERS
    operations = (
        CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
    )
    code = ErrorCode.NONE if wants_brokers else ErrorCode.MISMATCHED_ENDPOINT_TYPE
    return make(
        DescribeClusterResponse,
        throttle_time=NO_THROTTLE,
        error_code=code,
        error_message=None if wants_brokers else code.message,
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id if wants_brokers else "",
        controller_id=broker.metadata.controller_id if wants_brokers else -1,
        brokers=tuple(
            make(
                DescribeClusterBroker,
                broker_id=node.id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=False,
            )
            for node in broker.metadata.nodes(context.listener)
        )
        if wants_brokers
        else (),
        cluster_authorized_operations=operations,
    )
