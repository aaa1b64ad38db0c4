"""What can go wrong on the client's side of a connection.

    KafkaError                     has a code, a message and ``retriable``; what a server answered
    └── ClientError                found out here, without an answer
        ├── NoBrokersError         none of the addresses could be reached
        ├── ConnectionLostError    the connection broke while requests were open
        ├── TimedOutError          no answer, or no success, in the time allowed
        ├── UnsupportedApiError    the broker is too old or too new for this request
        └── UnknownTopicError      the cluster has no such topic or partition

All of them are ``KafkaError``: one ``except`` and one look at ``retriable`` serve both kinds.
"""

from __future__ import annotations

from typing import Final

from moldau.errors import ErrorCode, KafkaError


class ClientError(KafkaError):
    """A failure that no broker reported."""


class NoBrokersError(ClientError):
    """Worth another try: brokers restart, and every address is tried again."""

    @property
    def retriable(self) -> bool:
        return True

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, message)


class ConnectionLostError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class TimedOutError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class UnsupportedApiError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)


class UnknownTopicError(ClientError):
    """Kafka calls this code retriable, for topics under creation; here the cluster was asked."""

    @property
    def retriable(self) -> bool:
        return False

    def __init__(self, topic: str, partition: int | None = None) -> None:
        self.topic = topic
        self.partition = partition
        if partition is None:
            message = f"There is no topic {topic!r}"
        else:
            message = f"Topic {topic!r} has no partition {partition}"
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


_CODES: Final = {int(code): code for code in ErrorCode}


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """The error of a code that a broker answered, or None for success."""
    if code == 0:
        return None
    known = _CODES.get(code)
    if known is None:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message or f"unknown error code {code}")
    return KafkaError(known, message)


def check(code: int, message: str | None = None) -> None:
    """Raise if a broker answered with an error."""
    error = error_of(code, message)
    if error is not None:
        raise error
