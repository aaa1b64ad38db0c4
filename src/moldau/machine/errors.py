"""What can go wrong with the machine, apart from the operating system's own ``OSError``."""

from __future__ import annotations

import errno
from typing import Final

_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_passing(error: BaseException) -> bool:
    """Returns whether the system lacked something other than the disk, such as a file descriptor.

    What could not be opened for that reason can be tried again; nothing was written.
    """
    return isinstance(error, OSError) and error.errno in _PASSING


def is_full(error: BaseException) -> bool:
    """Returns whether the disk has no room left: it can be read, and written again once there is
    room.
    """
    return isinstance(error, OSError) and error.errno in _FULL


class TruncatedFileError(OSError):
    """A file became shorter than the slice of it that is being sent."""


class TlsHandshakeError(ConnectionError):
    """There is a connection, but no TLS on it; the cause says why."""
