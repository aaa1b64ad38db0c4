"""When a group's lag becomes an alert, and when the alert is over. Pure: time is handed in.

    CALM ──▶ RISING ──▶ RAISED ──▶ CALM
       ▲        │
       └────────┘

The alert is raised when the lag has been above its threshold for a while, and cleared when it falls
well below: a lag that swings around the threshold does not send a mail per swing. In quiet hours
nothing is raised; what is still too high when they end is raised then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, time
from enum import Enum

from moldau.config.option import ConfigError
from moldau.mailalert.alert import Alert, Severity


class LagState(Enum):
    CALM = "calm"
    """The lag is below the threshold."""
    RISING = "rising"
    """Above it, but not for long enough, or in quiet hours."""
    RAISED = "raised"
    """People were told."""


@dataclass(frozen=True, slots=True)
class QuietHours:
    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        try:
            begin, end = (time.fromisoformat(part.strip()) for part in text.split("-"))
        except ValueError:
            raise ConfigError(f"quiet_hours is {text!r}, but must be like '22:00-06:00'") from None
        return cls(begin, end)

    def contain(self, moment: datetime) -> bool:
        now = moment.time()
        if self.begin <= self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind, summed over partitions in records, at worst in seconds."""

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LagRule:
    group: str
    topic: str | None = None
    records: int | None = None
    seconds: float | None = None
    clear_below: float = 0.8
    lasting_ms: int = 0
    quiet_hours: QuietHours | None = None
    severity: Severity = Severity.ERROR
    recipients: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.group}/{self.topic}" if self.topic else self.group

    def is_high(self, lag: Lag) -> bool:
        return self._above(lag, 1.0)

    def is_over(self, lag: Lag) -> bool:
        return not self._above(lag, self.clear_below)

    def _above(self, lag: Lag, part: float) -> bool:
        too_many = self.records is not None and lag.records >= self.records * part
        too_late = self.seconds is not None and lag.seconds >= self.seconds * part
        return too_many or too_late


@dataclass(slots=True)
class LagWatch:
    """One rule and where it stands."""

    rule: LagRule
    state: LagState = LagState.CALM
    since_ms: int = field(default=0)

    def update(self, lag: Lag, now_ms: int, local_time: datetime) -> Alert | None:
        """Take in a measurement; returns the alert to send, if any."""
        rule = self.rule
        if self.state is LagState.RAISED:
            if not rule.is_over(lag):
                return None
            self.state = LagState.CALM
            return self._alert(lag, now_ms, raised=False)
        if not rule.is_high(lag):
            self.state = LagState.CALM
            return None
        if self.state is LagState.CALM or now_ms < self.since_ms:  # or the clock was set back
            self.state, self.since_ms = LagState.RISING, now_ms
        quiet = rule.quiet_hours is not None and rule.quiet_hours.contain(local_time)
        if quiet or now_ms - self.since_ms < rule.lasting_ms:
            return None
        self.state = LagState.RAISED
        return self._alert(lag, now_ms, raised=True)

    def _alert(self, lag: Lag, now_ms: int, *, raised: bool) -> Alert:
        rule = self.rule
        limits = [
            *([f"{rule.records} records"] if rule.records is not None else []),
            *([f"{rule.seconds:g} s"] if rule.seconds is not None else []),
        ]
        behind = f"{lag.records} records and {lag.seconds:.0f} s behind"
        if raised:
            subject = f"Consumer lag: {rule.name}"
            body = f"Group {rule.group} is {behind}; the limit is {' or '.join(limits)}."
        else:
            subject = f"Consumer lag is over: {rule.name}"
            body = f"Group {rule.group} is {behind} again; the limit is {' or '.join(limits)}."
        return Alert(
            subject=subject,
            body=body,
            recipients=rule.recipients,
            severity=rule.severity if raised else Severity.INFO,
            time_ms=now_ms,
        )
