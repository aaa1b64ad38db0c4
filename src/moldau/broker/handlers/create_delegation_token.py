"""CreateDelegationToken (key 38, versions 1-3): a token to log in with (KIP-48).

Behaviour: listeners are plaintext, where Kafka gives nobody a token either:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Known deviations: times that do not exist are 0, not -1.
"""

from __future__ import annotations

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse

from moldau.broker.delegation_tokens import NEVER, refuse_token
from moldau.broker.request import Request
from moldau.errors import KafkaError
from moldau.wire.make import make


def handle(_request: Request[CreateDelegationTokenRequest]) -> CreateDelegationTokenResponse:
    refuse_token()


def error_answer(
    request: Request[CreateDelegationTokenRequest], error: KafkaError
) -> CreateDelegationTokenResponse:
    user = request.connection.principal
    return make(
        CreateDelegationTokenResponse,
        error_code=error.code,
        principal_type=user.type,
        principal_name=user.name,
        token_requester_principal_type=user.type,
        token_requester_principal_name=user.name,
        issue_timestamp=NEVER,
        expiry_timestamp=NEVER,
        max_timestamp=NEVER,
        token_id="",
        hmac=b"",
    )
