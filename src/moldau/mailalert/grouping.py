"""Which mail an alert goes into. Pure: times are handed in, nothing is stored here.

Alerts with one subject and the same recipients share a mail while its window lasts; a severe one
gets a mail of its own at once. An alert whose dedupe key the same recipients were told of a short
while ago joins the mail of the first one and adds to its count only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from moldau.mailalert.alert import Alert, Severity

GroupKey = tuple[str, tuple[str, ...]]
"""Subject, or dedupe key, and recipients."""

_MAX_REMEMBERED_KEYS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class GroupingRules:
    window_ms: int
    """How long a mail collects alerts; 0 mails every alert alone."""
    bypass: Severity | None
    """Alerts of this severity and above do not wait for others."""
    dedupe_window_ms: int


@dataclass(slots=True)
class OpenMail:
    """A mail that still takes alerts."""

    id: str
    key: GroupKey
    window_ends_ms: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an alert belongs."""

    mail: OpenMail
    is_new: bool
    """The mail has to be made."""
    is_duplicate: bool


@dataclass(slots=True)
class Grouper:
    """Remembers the open mails and the dedupe keys of late."""

    rules: GroupingRules
    _open: dict[GroupKey, OpenMail] = field(default_factory=dict)
    _seen: OrderedDict[GroupKey, tuple[int, OpenMail]] = field(default_factory=OrderedDict)

    def restore(self, mails: Iterable[OpenMail], keys: Iterable[tuple[str, int, OpenMail]]) -> None:
        """Go on where the last process stopped: its open mails, and (key, time, mail)."""
        for mail in mails:
            self._open[mail.key] = mail
        for key, seen_ms, mail in keys:
            self._seen[key, mail.key[1]] = (seen_ms, mail)

    def place(self, alert: Alert, recipients: tuple[str, ...], now_ms: int) -> Placement:
        first = self._first_of_its_kind(alert, recipients, now_ms)
        if first is not None:
            return Placement(first, is_new=False, is_duplicate=True)
        key = (alert.subject, recipients)
        bypass = self.rules.bypass is not None and alert.severity >= self.rules.bypass
        mail = None if bypass else self._open.get(key)
        is_new = mail is None or mail.window_ends_ms <= now_ms
        if mail is None or is_new:
            window = 0 if bypass else self.rules.window_ms
            mail = OpenMail(uuid4().hex, key, now_ms + window)
            if window:
                self._open[key] = mail
        if alert.dedupe_key is not None and self.rules.dedupe_window_ms:
            self._seen[alert.dedupe_key, recipients] = (now_ms, mail)
        return Placement(mail, is_new, is_duplicate=False)

    def closed(self, mail: OpenMail) -> None:
        """The mail takes no more alerts, whatever its window says."""
        if self._open.get(mail.key) is mail:
            del self._open[mail.key]

    def forget(self, now_ms: int) -> None:
        """Drop what is over; call it now and then."""
        for key in [key for key, mail in self._open.items() if mail.window_ends_ms <= now_ms]:
            del self._open[key]
        oldest = now_ms - self.rules.dedupe_window_ms
        while self._seen:
            seen_ms, _ = next(iter(self._seen.values()))
            if seen_ms > oldest and len(self._seen) <= _MAX_REMEMBERED_KEYS:
                break
            self._seen.popitem(last=False)

    def _first_of_its_kind(
        self, alert: Alert, recipients: tuple[str, ...], now_ms: int
    ) -> OpenMail | None:
        if alert.dedupe_key is None:
            return None
        key = (alert.dedupe_key, recipients)
        seen = self._seen.get(key)
        # A clock that was set back must not make the window longer.
        if seen is None or abs(now_ms - seen[0]) >= self.rules.dedupe_window_ms:
            self._seen.pop(key, None)
            return None
        return seen[1]
