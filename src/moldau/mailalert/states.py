"""The states of a mail, and what an alert's state follows from.

OPEN ──▶ READY ──▶ SENDING ──▶ SENT
           ▲          │ ├────▶ FAILED ──▶ READY   (the retry command)
           └──────────┴─┘
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class MailState(StrEnum):
    """Where a mail is on its way; its alerts share its fate."""

    OPEN = "open"
    """Collects alerts of its group until its window ends."""
    READY = "ready"
    """Complete, with a Message-ID; waits for a worker, or for its next attempt."""
    SENDING = "sending"
    """A worker has it, under a lease that runs out if the worker dies."""
    SENT = "sent"
    """The mail server took it."""
    FAILED = "failed"
    """Dead letter: refused for good, or tried too often. ``retry`` makes it ready again."""


PREDECESSORS: Final[dict[MailState, frozenset[MailState]]] = {
    MailState.OPEN: frozenset(),
    MailState.READY: frozenset({MailState.OPEN, MailState.SENDING, MailState.FAILED}),
    MailState.SENDING: frozenset({MailState.READY}),
    MailState.SENT: frozenset({MailState.SENDING}),
    MailState.FAILED: frozenset({MailState.SENDING}),
}


class AlertState(StrEnum):
    """What became of an alert."""

    RECEIVED = "received"
    """Stored; its mail is still open."""
    GROUPED = "grouped"
    """Its mail is complete and on its way."""
    SENT = "sent"
    FAILED = "failed"
    INVALID = "invalid"
    """The record was no alert; it is kept with the reason and mailed to nobody."""


ALERT_STATES: Final[dict[MailState, AlertState]] = {
    MailState.OPEN: AlertState.RECEIVED,
    MailState.READY: AlertState.GROUPED,
    MailState.SENDING: AlertState.GROUPED,
    MailState.SENT: AlertState.SENT,
    MailState.FAILED: AlertState.FAILED,
}
