"""What a request to a broker can fail with: an error that the broker answers, or no answer.

Clients and brokers that talk to each other raise the same classes; ``moldau.client.errors`` has the
whole tree of what users see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.printable import LONGEST_LINE, printable

# What brokers answer


class ProducerFencedError(KafkaError):
    """Another producer with the same transactional id has taken over."""


class OutOfOrderSequenceError(KafkaError):
    """Records before this one are missing on the broker."""


class AuthenticationError(KafkaError):
    """Trying again with the same settings changes nothing."""

    @property
    def retriable(self) -> bool:
        return False


class AuthorizationError(KafkaError):
    """The cluster's rules forbid it."""


class RecordTooLargeError(KafkaError):
    """Larger than the client or the topic allows."""

    def __init__(
        self, code: ErrorCode = ErrorCode.MESSAGE_TOO_LARGE, message: str | None = None
    ) -> None:
        super().__init__(code, message)


class TransactionAbortableError(KafkaError):
    """What was done in this transaction cannot be committed, but a new one can begin."""

    def __init__(
        self, code: ErrorCode = ErrorCode.TRANSACTION_ABORTABLE, message: str | None = None
    ) -> None:
        super().__init__(code, message)


class OffsetOutOfRangeError(KafkaError):
    """Positions outside of what their partitions hold; ``partitions`` has them."""

    def __init__(
        self,
        code: ErrorCode = ErrorCode.OFFSET_OUT_OF_RANGE,
        message: str | None = None,
        partitions: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.partitions = dict(partitions or {})
        super().__init__(code, message)


_CODES: Final = {int(code): code for code in ErrorCode}

_CLASSES: Final[dict[ErrorCode, type[KafkaError]]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLargeError,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequenceError,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortableError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
}
"""The codes that have a class of their own; all others are a plain ``KafkaError``."""


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Returns the error of a code that a broker answered, None for success."""
    if code == 0:
        return None
    message = message and printable(message, LONGEST_LINE)
    known = _CODES.get(code)
    if known is None:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message or f"unknown error code {code}")
    return _CLASSES.get(known, KafkaError)(known, message)


def check(code: int, message: str | None = None) -> None:
    """Raise if a broker answered with an error."""
    error = error_of(code, message)
    if error is not None:
        raise error


# What is found out without an answer


class ClientError(KafkaError):
    """A failure that no broker reported."""


class SslAuthenticationError(AuthenticationError, ClientError):
    """Kafka has no code of its own for this: brokers never answer it."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class ConnectionLostError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class TimedOutError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class UnsupportedApiError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)
