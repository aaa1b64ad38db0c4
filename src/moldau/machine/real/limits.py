"""The limits of this process."""

from __future__ import annotations

import resource


class OsLimits:
    def raise_open_files(self) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            except ValueError as error:
                raise OSError(str(error)) from error
        return hard
