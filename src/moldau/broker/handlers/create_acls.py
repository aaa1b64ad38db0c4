"""CreateAcls (key 30, versions 1-3): allow or forbid.

Behaviour: there is no authorizer, so each is SECURITY_DISABLED, as by a Kafka broker without one.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse

from moldau.broker.acls import NO_AUTHORIZER
from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(_request: Request[CreateAclsRequest]) -> CreateAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_answer(request: Request[CreateAclsRequest], error: KafkaError) -> CreateAclsResponse:
    return make(
        CreateAclsResponse,
        results=tuple(
            make(AclCreationResult, error_code=error.code, error_message=error.message)
            for _ in request.body.creations
        ),
    )
