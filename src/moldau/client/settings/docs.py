"""The page of clients' settings, ``docs/client-settings.md``.

``python -m moldau.client.settings.docs`` prints it.
A test compares the committed page with this output, so the page cannot fall behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from moldau.client.settings import (
    AdminSettings,
    CommonSettings,
    ConsumerSettings,
    ProducerSettings,
)
from moldau.client.settings.base import ALIASES, UNSUPPORTED
from moldau.client.settings.security import SecuritySettings
from moldau.client.settings.setting import REQUIRED, Setting
from moldau.config.option import MAX_INT, MAX_LONG, format_value

_INTRO = """\
# Settings of clients

Names, units and defaults are Apache Kafka's. A setting is a keyword argument with underscores or
an entry of a dictionary with dots, and its value has its Python type or is text:

    Producer(bootstrap_servers="localhost:9092", linger_ms=10)
    Producer({"bootstrap.servers": "localhost:9092", "linger.ms": "10"})

A wrong name or value is a `ConfigError` when the client is made; nothing is ignored in silence.

This page is generated from the settings themselves: `python -m moldau.client.settings.docs`.
"""


def settings_page() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRO
    common = CommonSettings.table
    security = SecuritySettings.table
    yield _section("All clients", [s for name, s in common.items() if name not in security])
    yield _section("TLS and SASL, of all clients", security.values())
    yield "\nThe names of librdkafka mean the same:\n\n"
    for alias, name in ALIASES.items():
        yield f"- `{alias}`: `{name}`\n"
    for title, settings in (
        ("Producers", ProducerSettings),
        ("Consumers", ConsumerSettings),
        ("Admin clients", AdminSettings),
    ):
        own = [s for name, s in settings.table.items() if common.get(name) is not s]
        yield _section(title, own)
    yield "\n## Not supported\n\nThese are refused, with the reason:\n\n"
    for name, reason in UNSUPPORTED.items():
        yield f"- `{name}{'*' if name.endswith('.') else ''}`: {reason}.\n"


def _section(title: str, settings: Iterable[Setting[Any]]) -> str:
    lines = [
        f"\n## {title}\n",
        "| Name | Type | Default | Allowed | Meaning |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{s.name}` | {s.kind} | {_default(s)} | {_allowed(s)} | {s.doc} |"
        for s in sorted(settings, key=lambda setting: setting.name)
    ]
    return "\n".join(lines) + "\n"


def _default(setting: Setting[Any]) -> str:
    value = setting.default
    if value is REQUIRED:
        return "required"
    if value is None:
        return "not set"
    if value in (MAX_INT, MAX_LONG):
        return "no limit"
    text = "all" if setting.name == "acks" else format_value(value)
    return f"`{text.replace(',', ', ')}`" if text else "empty"


def _allowed(setting: Setting[Any]) -> str:
    if setting.allowed is not None:
        return setting.allowed.text
    return "true, false" if setting.kind == "boolean" else ""


if __name__ == "__main__":
    sys.stdout.write(settings_page())
