"""ExpireDelegationToken (key 40, versions 1-2): a token that no longer holds (KIP-48).

Behaviour: listeners are plaintext, where Kafka gives nobody a token either:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Known deviations: times that do not exist are 0, not -1.
"""

from __future__ import annotations

from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse

from moldau.broker.delegation_tokens import NEVER, refuse_token
from moldau.broker.request import Request
from moldau.errors import KafkaError
from moldau.wire.make import make


def handle(_request: Request[ExpireDelegationTokenRequest]) -> ExpireDelegationTokenResponse:
    refuse_token()


def error_answer(
    _request: Request[ExpireDelegationTokenRequest], error: KafkaError
) -> ExpireDelegationTokenResponse:
    return make(ExpireDelegationTokenResponse, error_code=error.code, expiry_timestamp=NEVER)
