"""What a broker knows of records that it may have lost, for those who elect leaders."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from moldau.log import LogManager
from moldau.log.directory.intactness import (
    forget_intact_since,
    keep_intact_since,
    read_intact_since,
)
from moldau.machine import Machine

log = logging.getLogger(__name__)


class Losses:
    def __init__(self, machine: Machine, log_dirs: Sequence[str]) -> None:
        self._machine = machine
        self._log_dirs = log_dirs
        self.intact_since = -1
        """The broker epoch since which this broker has lost no record; -1: not known."""

    async def look_for(self, logs: LogManager) -> None:
        """Find out since when this broker has lost nothing, for those who elect leaders."""
        run_in_thread = self._machine.threads.run
        if len(logs.online_dirs) == len(self._log_dirs):
            self.intact_since = await run_in_thread(
                read_intact_since, self._machine, self._log_dirs, logs.closed_cleanly
            )

        def forget() -> None:
            self.intact_since = -1
            forget_intact_since(self._machine, self._log_dirs)

        logs.on_directory_failed = forget
        if self.intact_since >= 0:
            await self._keep(logs)
        else:
            log.info("records may have been lost: other replicas lead before those of this broker")

    async def note_life(self, logs: LogManager, epoch: int) -> None:
        """From now on something is known of what is in the directories."""
        if self.intact_since < 0:
            self.intact_since = epoch
            await self._keep(logs)

    async def _keep(self, logs: LogManager) -> None:
        try:
            await self._machine.threads.run(
                keep_intact_since, self._machine, logs.online_dirs, self.intact_since
            )
        except OSError as error:
            # It will be taken for a broker that lost something.
            log.warning("it cannot be written down that nothing is lost: %s", error)
