"""What the records package raises about bytes it cannot accept.

``CorruptRecordError``: damaged bytes, such as an impossible header or a wrong CRC. To send or read
them again may help, and the error code says so. ``InvalidRecordError``: the batch is what was
written, but its content breaks the format (records, counts, compression); it will not get better.
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


class DecompressionLimitError(InvalidRecordError):
    """The records come to more bytes than their reader takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the records decompress to more than {limit} bytes")
