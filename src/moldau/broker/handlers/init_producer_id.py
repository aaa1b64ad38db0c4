"""InitProducerId (key 22, versions 0-5): an id and epoch for an idempotent producer.

Behaviour: every call without a transactional id gets a fresh id with epoch 0.
Known deviations: transactions are not served yet; a transactional id is answered with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as by FindCoordinator.
"""

from __future__ import annotations

import logging

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

log = logging.getLogger(__name__)


async def handle(request: Request[InitProducerIdRequest]) -> InitProducerIdResponse:
    transactional_id = request.body.transactional_id
    if transactional_id is not None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if transactional_id
            else ErrorCode.INVALID_REQUEST
        )
    try:
        producer_id = await request.broker.producer_ids.next()
    except KafkaError as error:
        # The block cannot be reserved now; clients retry this one.
        log.warning("no producer id: %s", error)
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error
    return _response(ErrorCode.NONE, producer_id, 0)


def error_answer(
    _request: Request[InitProducerIdRequest], error: KafkaError
) -> InitProducerIdResponse:
    return _response(error.code, -1, -1)


def _response(code: ErrorCode, producer_id: int, epoch: int) -> InitProducerIdResponse:
    return make(
        InitProducerIdResponse, error_code=code, producer_id=producer_id, producer_epoch=epoch
    )
