"""The page of all settings: ``python -m moldau.config.docs > docs/configuration.md``.

A test compares the committed page with this output, so the page cannot fall behind the options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from moldau.config.ignored import FAMILIES, REPLACED
from moldau.config.option import (
    MAX_INT,
    MAX_LONG,
    AnyOption,
    Area,
    ConfigType,
    format_value,
)
from moldau.config.per_group_options import PER_GROUP, broker_setting
from moldau.config.tables import BROKER_AREAS
from moldau.config.topic_options import TOPIC, TOPIC_SYNONYMS

_INTRO = """\
# Settings

Moldau's settings are Apache Kafka's: same names, same units, same defaults. A `server.properties`
loads as it is, whether it was written for a ZooKeeper-era broker or for a KRaft node:

    moldau broker --config server.properties --override num.partitions=3

- The file has Java's properties format: `#` and `!` begin comments, a backslash at the end
  continues a line, and the last of several equal keys wins.
- A value that is not allowed stops the start with one sentence: key, value, what is allowed.
- An unknown key gives a warning, with the nearest known key.
- Keys that Kafka knows and Moldau does not use load in silence; [they are listed below]\
(#accepted-without-effect).
- What would be dangerous to ignore stops the start: a listener that asks for TLS or SASL, an
  authorizer, tiered storage, a node that is only a controller.

In the tables, **Change** says when a setting may change: *read-only* settings need a restart,
*per-broker* and *cluster-wide* ones can be altered while the broker runs, for one broker or for
all (`moldau config alter`, `kafka-configs.sh`). A value set at run time for one broker wins over
one for all, which wins over the file. A dagger (†) marks settings that are checked and shown but
have no effect, mostly because they tune machinery that Moldau does not have.

This page is generated from the options themselves: `python -m moldau.config.docs`.
"""

_ALIASES = """\
## Names from two eras

| ZooKeeper era | KRaft era | Meaning here |
|---|---|---|
| `broker.id` | `node.id` | The same setting; either may be used. `broker.id=-1` means "not set". |
| `zookeeper.connect` | `controller.quorum.voters` | Read, not contacted: a node keeps its own \
coordination data. |
| (none) | `process.roles` | Every node is a broker and may be controller; only `controller` alone \
is refused. |
| (none) | `controller.listener.names` | Recognised in `listeners` and not opened. |
| `log.retention.hours`, `.minutes`, `.ms` | the same | The finest unit that is set wins; so for \
`log.roll` and `log.roll.jitter`. |
| `log.dir`, `log.dirs` | the same | `log.dirs` wins. |
"""


def configuration_page() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRO
    yield f"\n{_ALIASES}"
    for area in BROKER_AREAS:
        yield _section(area, _broker_columns, ("Type", "Default", "Allowed", "Change", "Meaning"))
    yield _section(
        TOPIC, _topic_columns, ("Type", "Default", "Allowed", "Broker setting", "Meaning")
    )
    yield _section(
        PER_GROUP, _group_columns, ("Type", "Default", "Allowed", "Broker setting", "Meaning")
    )
    yield "\n## Accepted without effect\n\n"
    yield (
        "These keys load without a warning and change nothing. Keys that begin with\n"
        "`listener.name.` (settings for one listener) are accepted in the same way.\n"
    )
    for family in FAMILIES:
        names = ", ".join(f"`{name}`" for name in family.names)
        yield f"\n**{family.title}.** {family.reason}\n{names}\n"
    yield "\n## Replaced long ago\n\nThese keys give a warning that names their successor.\n\n"
    yield "".join(f"- `{name}`: {hint}\n" for name, hint in REPLACED.items())


def _section(
    area: Area, columns: Callable[[AnyOption], tuple[str, ...]], titles: tuple[str, ...]
) -> str:
    lines = [f"\n## {area.title}\n", f"{area.intro}\n"]
    lines.append(f"| Name | {' | '.join(titles)} |")
    lines.append("|---|" + "---|" * len(titles))
    for option in sorted(area.options, key=lambda option: option.name):
        mark = " †" if option.inert else ""
        lines.append(f"| `{option.name}`{mark} | {' | '.join(columns(option))} |")
    return "\n".join(lines) + "\n"


def _broker_columns(option: AnyOption) -> tuple[str, ...]:
    return (
        option.type.name.lower(),
        _default(option),
        _allowed(option),
        option.update.value,
        _meaning(option),
    )


def _topic_columns(option: AnyOption) -> tuple[str, ...]:
    synonyms = TOPIC_SYNONYMS.get(option.name, ())
    brokers = ", ".join(f"`{synonym.option.name}`" for synonym in synonyms)
    return (
        option.type.name.lower(), _default(option), _allowed(option), brokers, _meaning(option)
    )  # fmt: skip


def _group_columns(option: AnyOption) -> tuple[str, ...]:
    broker = broker_setting(option.name)
    return (
        option.type.name.lower(),
        _default(option),
        _allowed(option),
        "" if broker is None else f"`{broker}`",
        _meaning(option),
    )


def _meaning(option: AnyOption) -> str:
    return f"{option.doc} Internal: for tests." if option.internal else option.doc


def _allowed(option: AnyOption) -> str:
    if option.allowed is not None:
        return option.allowed.text
    return "true, false" if option.type is ConfigType.BOOLEAN else ""


def _default(option: AnyOption) -> str:
    value = option.default
    if value is None:
        return "not set"
    text = format_value(value)
    if not text:
        return "empty"
    note = (
        "" if isinstance(value, bool) or not isinstance(value, int) else _size(option.name, value)
    )
    return f"`{text.replace(',', ', ')}`{note}"


def _size(name: str, value: int) -> str:
    """The number in units that people think in."""
    if value in (MAX_INT, MAX_LONG):
        return " (no limit)"
    if name.endswith(("bytes", "buffer.size")):
        return _in_units(value, (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)))
    if name.endswith(".ms"):
        return _in_units(value, (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)))
    return ""


def _in_units(value: int, units: tuple[tuple[str, int], ...]) -> str:
    for unit, size in units:
        if value >= size and value % size == 0:
            return f" ({value // size} {unit})"
    return ""


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
