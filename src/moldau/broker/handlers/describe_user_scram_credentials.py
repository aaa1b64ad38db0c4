"""DescribeUserScramCredentials (key 50, version 0): users that log in by SCRAM (KIP-554).

Behaviour: brokers have no logins, so there is no user: none are listed, and each that is named is
RESOURCE_NOT_FOUND, or DUPLICATE_RESOURCE if it is named twice.
Known deviations: AlterUserScramCredentials is not served.
"""

from __future__ import annotations

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(
    request: Request[DescribeUserScramCredentialsRequest],
) -> DescribeUserScramCredentialsResponse:
    mentions = Counter(user.name for user in request.body.users or ())
    return make(
        DescribeUserScramCredentialsResponse,
        error_code=ErrorCode.NONE,
        error_message=None,
        results=tuple(_unknown(user, count) for user, count in mentions.items()),
    )


def _unknown(user: str, mentions: int) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {user}"
    if mentions > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    return make(
        DescribeUserScramCredentialsResult,
        user=user,
        error_code=code,
        error_message=message,
        credential_infos=(),
    )


def error_answer(
    _request: Request[DescribeUserScramCredentialsRequest], error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    return make(
        DescribeUserScramCredentialsResponse,
        error_code=error.code,
        error_message=error.message,
        results=(),
    )
