"""What can go wrong in a coordination store. The names are ZooKeeper's.

CoordinationError
├── NoNodeError                  the node (or, for a create, its parent) is not there
├── NodeExistsError              the node is already there
├── BadVersionError              somebody changed the node since it was read
├── NotEmptyError                the node still has children
├── EphemeralParentError         ephemeral nodes cannot have children
├── BadPathError                 the path is malformed
├── SessionExpiredError          this session is over; its ephemeral nodes are gone
├── ConnectionLostError          the connection broke: whether the change was made is not known
├── StoreUnavailableError        the change was not made (for example: disk full)
│   └── EnsembleError            a ZooKeeper ensemble is not reached, or refuses
├── StoreLockedError             another process has this directory open
└── StoreCorruptError            the files on disk are damaged; nothing was guessed
"""

from __future__ import annotations


class CoordinationError(Exception):
    """Base of all errors of the store. ``index`` is the failing operation of a multi."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.index = 0


class NoNodeError(CoordinationError):
    def __init__(self, path: str) -> None:
        super().__init__(f"no node {path}", path=path)


class NodeExistsError(CoordinationError):
    def __init__(self, path: str) -> None:
        super().__init__(f"node {path} exists already", path=path)


class BadVersionError(CoordinationError):
    def __init__(self, path: str, expected: int, found: int | None = None) -> None:
        other = "another version" if found is None else f"version {found}"
        super().__init__(f"node {path} has {other}, not {expected}", path=path)


class NotEmptyError(CoordinationError):
    def __init__(self, path: str) -> None:
        super().__init__(f"node {path} has children", path=path)


class EphemeralParentError(CoordinationError):
    def __init__(self, path: str) -> None:
        super().__init__(f"node {path} is ephemeral and cannot have children", path=path)


class BadPathError(CoordinationError):
    def __init__(self, path: str) -> None:
        super().__init__(f"malformed path {path!r}", path=path)


class SessionExpiredError(CoordinationError):
    pass


class ConnectionLostError(CoordinationError):
    pass


class StoreUnavailableError(CoordinationError):
    pass


class EnsembleError(StoreUnavailableError):
    pass


class StoreLockedError(CoordinationError):
    pass


class StoreCorruptError(CoordinationError):
    pass
