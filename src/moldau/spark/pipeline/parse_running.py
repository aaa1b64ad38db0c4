"""``[restart]`` and ``metrics``: how a pipeline is kept running, and who may look at it."""

from __future__ import annotations

from typing import Final

from moldau.spark.pipeline.spec import Restart
from moldau.spark.pipeline.table import Table

RESTART_KEYS: Final = ("policy", "attempts", "backoff", "max_backoff", "reset_after")
_POLICIES: Final = ("no", "on-failure")


def parse_restart(table: Table, *, batch: bool) -> Restart | None:
    """None if a failure is the end."""
    table.allow(RESTART_KEYS)
    if table.values:
        table.require("policy", '"on-failure"')
    if table.word("policy", _POLICIES, "no") == "no":
        return None
    if batch:
        table.complain(
            "policy", "a batch cannot be restarted: it would write again what it has written"
        )
    default = Restart()
    attempts = table.number("attempts")
    if attempts is not None and attempts != int(attempts):
        table.complain("attempts", f"attempts of {table.what} must be a whole number")
    return Restart(
        attempts=None if attempts is None else int(attempts),
        backoff=table.duration("backoff") or default.backoff,
        max_backoff=table.duration("max_backoff") or default.max_backoff,
        reset_after=table.duration("reset_after") or default.reset_after,
    )


def metrics_problem(address: str | None) -> str | None:
    """Why nobody could listen there; None if nothing speaks against it."""
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and int(port) < 65536:
        return None
    return f'metrics is where to listen, such as "127.0.0.1:9404", not {address!r}'
