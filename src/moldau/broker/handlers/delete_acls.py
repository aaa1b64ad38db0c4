"""DeleteAcls (key 31, versions 1-3): no longer allow or forbid.

Behaviour: there is no authorizer, so each is SECURITY_DISABLED, as by a Kafka broker without one.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse

from moldau.broker.acls import NO_AUTHORIZER
from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(_request: Request[DeleteAclsRequest]) -> DeleteAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_answer(request: Request[DeleteAclsRequest], error: KafkaError) -> DeleteAclsResponse:
    return make(
        DeleteAclsResponse,
        filter_results=tuple(
            make(
                DeleteAclsFilterResult,
                error_code=error.code,
                error_message=error.message,
                matching_acls=(),
            )
            for _ in request.body.filters
        ),
    )
