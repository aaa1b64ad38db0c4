"""Who gets an alert: the first rules that match say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from moldau.mailalert.alert import Alert, Severity
from moldau.mailalert.allowed import AllowedRecipients


@dataclass(frozen=True, slots=True)
class Route:
    """Alerts that match go to ``recipients``; with ``go_on`` later rules may add more."""

    recipients: tuple[str, ...]
    subject: str = "*"
    """A shell pattern, compared without regard to case."""
    min_severity: Severity = Severity.DEBUG
    go_on: bool = False

    def matches(self, alert: Alert) -> bool:
        return alert.severity >= self.min_severity and fnmatchcase(
            alert.subject.casefold(), self.subject.casefold()
        )


class Router:
    """Recipients named by the alert itself come first; else the rules; else the default."""

    def __init__(
        self, routes: Sequence[Route], default: Iterable[str], allowed: AllowedRecipients
    ) -> None:
        self._routes = tuple(routes)
        self._default = tuple(default)
        self._allowed = allowed

    def recipients(self, alert: Alert) -> tuple[str, ...]:
        """Sorted, so that the same people in another order are the same group.

        ``InvalidAlertError`` if the alert names somebody whom it may not.
        """
        if alert.recipients:
            self._allowed.check(alert)
            return tuple(sorted(set(alert.recipients)))
        found: set[str] = set()
        matched = False
        for route in self._routes:
            if route.matches(alert):
                matched = True
                found.update(route.recipients)
                if not route.go_on:
                    break
        return tuple(sorted(found if matched else self._default))
