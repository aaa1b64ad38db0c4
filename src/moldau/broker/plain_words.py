"""Why a broker does not start, in words that a command can print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moldau.config.option import ConfigError
from moldau.coordination.errors import (
    CoordinationError,
    EnsembleError,
    StoreLockedError,
    StoreUnavailableError,
)
from moldau.log import StorageError


@contextmanager
def in_plain_words() -> Iterator[None]:
    """What keeps a broker from its directories, said so that a command can print it as it is."""
    try:
        yield
    except StoreLockedError as error:
        raise StorageError(
            f"{error.path} is locked: another broker runs in the same directory"
        ) from error
    except EnsembleError as error:
        raise ConfigError(f"zookeeper.connect: {error}") from error
    except StoreUnavailableError as error:
        raise StorageError(
            f"{error}. The room that the journal has of its own is used up: make some on the disk "
            "of the first log directory"
        ) from error
    except (CoordinationError, OSError) as error:
        raise StorageError(str(error)) from error
