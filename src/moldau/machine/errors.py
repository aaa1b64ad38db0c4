"""What can go wrong with the machine, apart from the operating system's own ``OSError``."""

from __future__ import annotations


class TruncatedFileError(OSError):
    """A file became shorter than the slice of it that is being sent."""


class TlsHandshakeError(ConnectionError):
    """There is a connection, but no TLS on it; the cause says why."""
