"""UnregisterBroker (key 64, version 0): forget a broker that is gone for good.

Behaviour: a registration ends with the session of its broker, so a broker that is gone is not
registered: BROKER_ID_NOT_REGISTERED.
Known deviations: Kafka removes the registration of a running broker, too, which comes back with its
next heartbeat or restart; here it is refused with INVALID_REQUEST.
"""

from __future__ import annotations

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(request: Request[UnregisterBrokerRequest]) -> UnregisterBrokerResponse:
    broker_id = request.body.broker_id
    if broker_id not in request.broker.metadata.brokers:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {broker_id} is not currently registered",
        )
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Broker ID {broker_id} is running; its registration ends when it stops",
    )


def error_answer(
    _request: Request[UnregisterBrokerRequest], error: KafkaError
) -> UnregisterBrokerResponse:
    return make(UnregisterBrokerResponse, error_code=error.code, error_message=error.message)
