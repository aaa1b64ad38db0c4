"""RenewDelegationToken (key 39, versions 1-2): a token that holds for longer (KIP-48).

Behaviour: listeners are plaintext, where Kafka gives nobody a token either:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Known deviations: times that do not exist are 0, not -1.
"""

from __future__ import annotations

from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse

from moldau.broker.delegation_tokens import NEVER, refuse_token
from moldau.broker.request import Request
from moldau.errors import KafkaError
from moldau.wire.make import make


def handle(_request: Request[RenewDelegationTokenRequest]) -> RenewDelegationTokenResponse:
    refuse_token()


def error_answer(
    _request: Request[RenewDelegationTokenRequest], error: KafkaError
) -> RenewDelegationTokenResponse:
    return make(RenewDelegationTokenResponse, error_code=error.code, expiry_timestamp=NEVER)
