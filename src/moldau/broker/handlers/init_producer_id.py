"""InitProducerId (key 22, versions 0-5): an id and epoch for an idempotent producer.

Behaviour: every call without a transactional id gets a fresh id with epoch 0.
Known deviations: transactions are not served yet; a transactional id is answered with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as by FindCoordinator.
"""

from __future__ import annotations

import logging

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

log = logging.getLogger(__name__)


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.transactional_id
            else ErrorCode.INVALID_REQUEST
        )
        return _answer(code, -1, -1)
    try:
        return _answer(ErrorCode.NONE, await context.broker.producer_ids.next(), 0)
    except KafkaError as error:
        # The block cannot be reserved now; clients retry this one.
        log.warning("no producer id: %s", error)
        return _answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)


def _answer(code: ErrorCode, producer_id: int, epoch: int) -> InitProducerIdResponse:
    return make(
        InitProducerIdResponse,
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
