"""Who does the cleaning for the broker: a process of its own, or, in simulations, the caller."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol, TypeAlias

from moldau.log.cleaner.messages import CleanDone, CleanFailed, CleanTask, GroupCleaned

Result: TypeAlias = GroupCleaned | CleanDone | CleanFailed


class RunnerError(Exception):
    """The cleaner ended or fell silent; the partition it worked on need not be to blame."""


class Runner(Protocol):
    def run(self, task: CleanTask) -> AsyncGenerator[Result, None]:
        """Clean; reports the groups that are ready to be swapped in, then the end."""
        ...

    def kill(self) -> None:
        """Give up whatever is being cleaned, at once."""
        ...

    async def stop(self) -> None:
        """There is nothing to do for a while."""
        ...
