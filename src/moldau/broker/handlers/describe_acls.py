"""DescribeAcls (key 29, versions 1-3): who may do what.

Behaviour: there is no authorizer, so everybody may do everything: SECURITY_DISABLED, as by a Kafka
broker without one.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(_request: Request[DescribeAclsRequest]) -> DescribeAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def error_answer(_request: Request[DescribeAclsRequest], error: KafkaError) -> DescribeAclsResponse:
    return make(
        DescribeAclsResponse, error_code=error.code, error_message=error.message, resources=()
    )
