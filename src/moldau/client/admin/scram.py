"""Users who log in with SCRAM (KIP-554). Passwords stay in this process: salted ones are sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Final

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import Outcome, ScramCredential, ScramDeletion, ScramUpsertion
from moldau.config.option import ConfigError
from moldau.request_errors import check, error_of
from moldau.security.scram import salted_password
from moldau.wire.api import ApiKey
from moldau.wire.make import make

_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES: Final = {number: name for name, number in _NUMBERS.items()}
_SALT_BYTES: Final = 24


async def describe_credentials(
    caller: Caller, users: Collection[str] | None
) -> list[Outcome[tuple[ScramCredential, ...]]]:
    request = make(
        DescribeUserScramCredentialsRequest,
        users=None if users is None else tuple(make(UserName, name=name) for name in users),
    )
    answer = await caller.any_broker(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    check(answer.error_code, answer.error_message)
    return [
        Outcome(
            result.user,
            tuple(
                ScramCredential(_NAMES.get(info.mechanism, str(info.mechanism)), info.iterations)
                for info in result.credential_infos
            ),
            error_of(result.error_code, result.error_message),
        )
        for result in answer.results
    ]


async def alter_credentials(
    caller: Caller, changes: Sequence[ScramUpsertion | ScramDeletion]
) -> list[Outcome[str]]:
    request = make(
        AlterUserScramCredentialsRequest,
        deletions=tuple(
            make(ScramCredentialDeletion, name=change.user, mechanism=_number(change.mechanism))
            for change in changes
            if isinstance(change, ScramDeletion)
        ),
        upsertions=tuple(
            _upsertion(change, caller.cluster.machine.secrets)
            for change in changes
            if isinstance(change, ScramUpsertion)
        ),
    )
    answer = await caller.controller(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        request,
        lambda answer: [result.error_code for result in answer.results],
    )
    return [
        Outcome(result.user, result.user, error_of(result.error_code, result.error_message))
        for result in answer.results
    ]


def _upsertion(change: ScramUpsertion, secrets: Random) -> ScramCredentialUpsertion:
    mechanism, salt = _number(change.mechanism), change.salt or secrets.randbytes(_SALT_BYTES)
    return make(
        ScramCredentialUpsertion,
        name=change.user,
        mechanism=mechanism,
        iterations=change.iterations,
        salt=salt,
        salted_password=salted_password(change.mechanism, change.password, salt, change.iterations),
    )


def _number(mechanism: str) -> int:
    try:
        return _NUMBERS[mechanism]
    except KeyError:
        raise ConfigError(f"{mechanism!r} is none of {', '.join(_NUMBERS)}") from None
