"""Settings of admin clients."""

from __future__ import annotations

from typing import Any

from moldau.client.settings.common import CommonSettings
from moldau.config.declare import integer, long
from moldau.config.types import MAX_INT


class AdminSettings(CommonSettings):
    """``Admin`` and ``AsyncAdmin``."""

    kind = "an admin client"

    connections_max_idle_ms = long(
        300_000, "A connection without traffic for so long is closed; -1 keeps it.", at_least=-1
    )
    default_api_timeout_ms = integer(
        60_000, "How long methods without a timeout of their own may take.", at_least=0
    )
    retries = integer(
        MAX_INT, "How often a failed request is repeated, within its timeout.", at_least=0
    )

    def _derive(self, values: dict[str, Any]) -> None:
        super()._derive(values)
        if "default.api.timeout.ms" not in values["explicit"]:
            least = values["request_timeout_ms"]
            values["default_api_timeout_ms"] = max(values["default_api_timeout_ms"], least)

    def _check(self) -> None:
        super()._check()
        self._require(
            self.default_api_timeout_ms >= self.request_timeout_ms,
            "default.api.timeout.ms must be at least request.timeout.ms",
        )
