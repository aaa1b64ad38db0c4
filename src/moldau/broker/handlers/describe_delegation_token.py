"""DescribeDelegationToken (key 41, versions 1-3): the tokens of users (KIP-48).

Behaviour: listeners are plaintext, where Kafka gives nobody a token either:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse

from moldau.broker.delegation_tokens import refuse_token
from moldau.broker.request import Request
from moldau.errors import KafkaError
from moldau.wire.make import make


def handle(_request: Request[DescribeDelegationTokenRequest]) -> DescribeDelegationTokenResponse:
    refuse_token()


def error_answer(
    _request: Request[DescribeDelegationTokenRequest], error: KafkaError
) -> DescribeDelegationTokenResponse:
    return make(DescribeDelegationTokenResponse, error_code=error.code, tokens=())
