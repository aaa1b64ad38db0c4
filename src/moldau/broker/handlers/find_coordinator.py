"""FindCoordinator (key 10, versions 0-6): who coordinates a group or a transaction.

Behaviour: each key is answered on its own; an unknown key type is INVALID_REQUEST.
Known deviations: groups and transactions are not served yet, so every key is answered with
COORDINATOR_NOT_AVAILABLE, the retriable error clients know from a Kafka cluster that is still
starting.
"""

from __future__ import annotations

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.errors import ErrorCode
from moldau.wire.make import make

GROUP, TRANSACTION, SHARE = 0, 1, 2


def handle(_context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    known = request.key_type in (GROUP, TRANSACTION, SHARE)
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST
    return make(
        FindCoordinatorResponse,
        throttle_time=NO_THROTTLE,
        coordinators=tuple(
            make(
                Coordinator,
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=code,
                error_message=code.message,
            )
            for key in request.coordinator_keys
        ),
    )
