"""ExpireDelegationToken (key 40, versions 1-2): a token that no longer holds (KIP-48).

Behaviour: listeners are plaintext, where Kafka gives nobody a token either:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Known deviations: times that do not exist are 0, not -1.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

NEVER = datetime.fromtimestamp(0, UTC)


def handle(_request: Request[ExpireDelegationTokenRequest]) -> ExpireDelegationTokenResponse:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_answer(
    _request: Request[ExpireDelegationTokenRequest], error: KafkaError
) -> ExpireDelegationTokenResponse:
    return make(ExpireDelegationTokenResponse, error_code=error.code, expiry_timestamp=NEVER)
