"""What the records package raises about bytes it cannot accept.

``CorruptRecordError``: the bytes are damaged or lie about themselves (sizes, CRC, compression), so
nothing can be said about their content. ``InvalidRecordError``: readable, but breaking a rule.
"""

from __future__ import annotations

from moldau.errors import ErrorCode, KafkaError


class CorruptRecordError(KafkaError):
    """The bytes are not a record batch, or not the one that was written."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class InvalidRecordError(KafkaError):
    """The batch is readable, but it is not allowed to look like this."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
