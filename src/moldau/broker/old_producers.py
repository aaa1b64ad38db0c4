"""What old producers are told instead of errors that they do not know."""

from __future__ import annotations

from moldau.errors import ErrorCode


def known_to_producers(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """Returns the error itself, or what came before PRODUCER_FENCED (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
