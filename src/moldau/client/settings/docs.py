"""The page of clients' settings, ``docs/client-settings.md``.

``python -m moldau.client.settings.docs`` prints it.
A test compares the committed page with this output, so the page cannot fall behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from moldau.client.settings import (
    AdminSettings,
    CommonSettings,
    ConsumerSettings,
    ProducerSettings,
)
from moldau.client.settings.base import ALIASES, UNSUPPORTED
from moldau.client.settings.security import SecuritySettings
from moldau.config.markdown import option_table
from moldau.config.option import AnyOption

_INTRO = """\
# Settings of clients

Names, units and defaults are Apache Kafka's. A setting is a keyword argument with underscores or
an entry of a dictionary with dots, and its value has its Python type or is text:

    Producer(bootstrap_servers="localhost:9092", linger_ms=10)
    Producer({"bootstrap.servers": "localhost:9092", "linger.ms": "10"})

A wrong name or value is a `ConfigError` when the client is made; nothing is ignored in silence.
A dagger (†) marks settings of Kafka that are taken and checked but have no effect here.

This page is generated from the settings themselves: `python -m moldau.client.settings.docs`.
"""


def settings_page() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRO
    common = CommonSettings.table
    security = SecuritySettings.table
    yield _section(
        "All clients", [option for name, option in common.items() if name not in security]
    )
    yield _section("TLS and SASL, of all clients", security.values())
    yield "\nThe names of librdkafka mean the same:\n\n"
    for alias, name in ALIASES.items():
        yield f"- `{alias}`: `{name}`\n"
    for title, settings in (
        ("Producers", ProducerSettings),
        ("Consumers", ConsumerSettings),
        ("Admin clients", AdminSettings),
    ):
        own = [option for name, option in settings.table.items() if common.get(name) is not option]
        yield _section(title, own)
    yield "\n## Not supported\n\nThese are refused, with the reason:\n\n"
    for name, reason in UNSUPPORTED.items():
        yield f"- `{name}{'*' if name.endswith('.') else ''}`: {reason}.\n"


def _section(title: str, options: Iterable[AnyOption]) -> str:
    return f"\n## {title}\n\n{option_table(options)}"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
