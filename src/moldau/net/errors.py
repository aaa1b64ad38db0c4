"""What can go wrong between two peers, apart from the operating system's own ``OSError``."""

from __future__ import annotations

from moldau.wire.errors import ProtocolError


class FrameSizeError(ProtocolError):
    """A frame announces a size that is negative or above the limit; ``start`` is how it begins."""

    def __init__(self, size: int, limit: int, start: bytes) -> None:
        self.size = size
        self.limit = limit
        self.start = start
        super().__init__(f"a frame of {size} bytes was announced; the limit is {limit}")


class ChannelClosedError(ConnectionError):
    """The channel is closed; what was waiting for an answer gets none."""


class RequestTimeoutError(ChannelClosedError):
    """No answer came in time. Answers come in order, so the channel is of no more use and is
    closed.
    """
