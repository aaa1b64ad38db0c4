"""Alerts as they travel: JSON records on a topic.

    {"subject": "disk full", "body": "/data has 1 % left", "severity": "error",
     "recipients": ["ops@example.org"], "dedupe_key": "disk:/data", "time": 1767225600000}

Only ``subject`` is required. ``time`` is in milliseconds since the epoch, or an ISO 8601 string.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

import msgspec

MAX_SUBJECT: Final = 500
"""Longer subjects are cut: they are the key of a group and one line of a mail."""

_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, behind which there are no dates to show."""

_ADDRESS: Final = re.compile(
    # No blanks, no controls, and none of the marks that make two addresses, a name, a group or a
    # comment of it: the text goes into a command and into a header as it is.
    r"""[^\s\x00-\x20\x7f-\x9f()<>\[\]\\,;:@"]+
        @(?:[^\s\x00-\x20\x7f-\x9f()<>\[\]\\,;:@"]+|\[[0-9A-Za-z.:]+\])""",
    re.VERBOSE,
)
_MAX_ADDRESS: Final = 320
MAX_RECIPIENTS: Final = 100
"""What every mail server takes for one mail (RFC 5321)."""


class Severity(IntEnum):
    """How bad it is; larger is worse."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50

    @classmethod
    def parse(cls, text: str) -> Severity:
        try:
            return cls[text.strip().upper()]
        except KeyError:
            allowed = ", ".join(severity.name.lower() for severity in cls)
            raise ValueError(f"severity is {text!r}, but must be one of {allowed}") from None


class InvalidAlertError(ValueError):
    """A record that is no alert; the text says what is wrong with it."""


class _Wire(msgspec.Struct, omit_defaults=True):
    subject: str
    body: str = ""
    recipients: list[str] = []
    severity: str = "error"
    dedupe_key: str | None = None
    time: int | str | None = None


class Alert(msgspec.Struct, frozen=True):
    """One alert."""

    subject: str
    body: str = ""
    recipients: tuple[str, ...] = ()
    """Who asked to be told; empty leaves it to the routing rules."""
    severity: Severity = Severity.ERROR
    dedupe_key: str | None = None
    """Alerts with the same key within the dedupe window count as one."""
    time_ms: int = 0

    def encode(self) -> bytes:
        return msgspec.json.encode(
            _Wire(
                subject=self.subject,
                body=self.body,
                recipients=list(self.recipients),
                severity=self.severity.name.lower(),
                dedupe_key=self.dedupe_key,
                time=self.time_ms or None,
            )
        )


_decoder: Final = msgspec.json.Decoder(_Wire)


def decode_alert(data: bytes | None, default_time_ms: int) -> Alert:
    """The alert in a record's value; ``InvalidAlertError`` if there is none."""
    if not data:
        raise InvalidAlertError("the record has no value")
    try:
        wire = _decoder.decode(data)
        severity = Severity.parse(wire.severity)
        time_ms = _milliseconds(wire.time, default_time_ms)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidAlertError(str(error)) from error
    # A line break in a subject would be a second header in the mail.
    subject = " ".join(_printable(wire.subject).split())[:MAX_SUBJECT]
    if not subject:
        raise InvalidAlertError("the subject is empty")
    if len(wire.recipients) > MAX_RECIPIENTS:
        raise InvalidAlertError(
            f"{len(wire.recipients)} recipients are more than {MAX_RECIPIENTS}: write to a list"
        )
    return Alert(
        subject=subject,
        body=_printable(wire.body),
        recipients=tuple(dict.fromkeys(check_address(one) for one in wire.recipients)),
        severity=severity,
        dedupe_key=_printable(wire.dedupe_key) if wire.dedupe_key else None,
        time_ms=time_ms,
    )


def _printable(text: str) -> str:
    return text.replace("\0", "\ufffd")  # PostgreSQL cannot store it


def check_address(text: str) -> str:
    """The address without blanks around it; ``InvalidAlertError`` if it cannot be one."""
    address = text.strip()
    if len(address) > _MAX_ADDRESS or _ADDRESS.fullmatch(address) is None:
        raise InvalidAlertError(f"{text[:_MAX_ADDRESS]!r} is not a mail address")
    return address


def is_time(time_ms: int) -> bool:
    """Returns whether a number of milliseconds is a date that can be shown."""
    return 0 <= time_ms <= _LAST_MS


def _milliseconds(time: int | str | None, default: int) -> int:
    if time is None:
        return default
    if isinstance(time, str):
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time = round(moment.timestamp() * 1000)
    if not is_time(time):
        raise ValueError(f"time is {time}, but must be milliseconds from 1970 to the year 9999")
    return time
