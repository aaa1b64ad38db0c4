"""DescribeCluster (key 60, versions 0-2): cluster id, controller and live brokers.

Behaviour: brokers are given with their address on the listener that the request came in by. Fenced
brokers do not exist here: a broker is either registered and live, or unknown.
Known deviations: none. The controllers' endpoint type (2) is answered with
MISMATCHED_ENDPOINT_TYPE, as on a Kafka broker's client listener.
"""

from __future__ import annotations

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse

from moldau.broker.acls import CLUSTER_OPERATIONS, NOT_REQUESTED
from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

BROKERS, CONTROLLERS = 1, 2


def handle(request: Request[DescribeClusterRequest]) -> DescribeClusterResponse:
    kind = request.body.endpoint_type
    if kind == CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if kind != BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {int(kind)}"
        )
    broker = request.broker
    return make(
        DescribeClusterResponse,
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_id,
        brokers=tuple(
            make(
                DescribeClusterBroker,
                broker_id=node.id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=False,
            )
            for node in broker.metadata.nodes(request.connection.listener)
        ),
        cluster_authorized_operations=_operations(request.body),
    )


def error_answer(
    request: Request[DescribeClusterRequest], error: KafkaError
) -> DescribeClusterResponse:
    return make(
        DescribeClusterResponse,
        error_code=error.code,
        error_message=error.message,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=-1,
        brokers=(),
        cluster_authorized_operations=_operations(request.body),
    )


def _operations(body: DescribeClusterRequest) -> int:
    return CLUSTER_OPERATIONS if body.include_cluster_authorized_operations else NOT_REQUESTED
