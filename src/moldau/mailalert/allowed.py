"""Whom alerts may name as recipients: whoever can write to the topic must not mail to the world."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.mailalert.alert import Alert, InvalidAlertError, check_address
from moldau.mailalert.smtp import with_ascii_domain

EVERYBODY: Final = "*"
_NAMED_IN_REASON: Final = 5
_RELAYED: Final = frozenset("%!")
"""In a name they once told servers to send a mail on to another domain; some still listen."""


class AllowedRecipients:
    """Addresses, and whole domains (``@example.org``); ``*`` is everybody."""

    def __init__(self, entries: Iterable[str]) -> None:
        normal = {_normal(entry) for entry in entries}
        self._everybody = EVERYBODY in normal
        self._domains = {entry for entry in normal if entry.startswith("@")}
        self._addresses = normal - self._domains

    def check(self, alert: Alert) -> None:
        """``InvalidAlertError`` if the alert names anybody else."""
        refused = [address for address in alert.recipients if address not in self]
        if refused:
            names = ", ".join(refused[:_NAMED_IN_REASON])
            more = len(refused) - _NAMED_IN_REASON
            raise InvalidAlertError(
                f"alerts may not name {names}{f' and {more} more' if more > 0 else ''} as "
                "recipients: allowed_recipients says whom they may"
            )

    def __contains__(self, address: str) -> bool:
        normal = _normal(address)
        name, _, domain = normal.rpartition("@")
        in_domain = f"@{domain}" in self._domains and not _RELAYED.intersection(name)
        return self._everybody or normal in self._addresses or in_domain


def domains_of(addresses: Iterable[str]) -> set[str]:
    """``@example.org`` for each address there."""
    return {f"@{address.rpartition('@')[2]}" for address in addresses}


def check_entry(entry: str) -> None:
    """``ValueError`` for what is no entry."""
    try:
        check_address(f"anybody{entry}" if entry.startswith("@") else entry)
    except InvalidAlertError:
        if entry != EVERYBODY:
            raise ValueError(
                f"{entry!r} is neither an address, nor a domain such as @example.org, nor *"
            ) from None


def _normal(entry: str) -> str:
    return entry if entry == EVERYBODY else with_ascii_domain(entry.strip()).lower()
