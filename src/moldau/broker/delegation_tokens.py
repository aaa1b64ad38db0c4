"""Tokens to log in with (KIP-48). Listeners are plaintext, where Kafka gives nobody one either."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NoReturn

from moldau.errors import ErrorCode, KafkaError

NEVER: Final = datetime.fromtimestamp(0, UTC)
"""When a token that does not exist was made and ends. Kafka says -1, which kio cannot read."""


def refuse_token() -> NoReturn:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
