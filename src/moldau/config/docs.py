"""The page of all settings: ``python -m moldau.config.docs > docs/configuration.md``.

A test compares the committed page with this output, so the page cannot fall behind the options.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from moldau.config.markdown import Column, option_table
from moldau.config.option import AnyOption, Options
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.client_metrics import ClientMetricsOptions
from moldau.config.options.group import GroupOptions
from moldau.config.options.ignored import families, replacements
from moldau.config.options.listeners import of_listener
from moldau.config.options.network import LISTENER_LIMITS
from moldau.config.options.topic import TopicOptions

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
| `zookeeper.connect` | `controller.quorum.voters` | The first is where a node finds its cluster; \
without it, it is one of its own. Voters are read, not contacted. |
| (none) | `process.roles` | Every node is a broker and may be controller; only `controller` alone \
is refused. |
| (none) | `controller.listener.names` | Recognised in `listeners` and not opened. |
| `log.retention.hours`, `.minutes`, `.ms` | the same | The finest unit that is set wins; so for \
`log.roll` and `log.roll.jitter`. |
| `log.dir`, `log.dirs` | the same | `log.dirs` wins. |
"""

_LISTENER_LIMITS = " and ".join(f"`{of_listener('<name>', name)}`" for name in LISTENER_LIMITS)


def configuration_page() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _INTRO
    yield f"\n{_ALIASES}"
    for section in BrokerOptions.__bases__:
        yield _section(section, {"Change": lambda option: option.update.value})
    for options in (TopicOptions, GroupOptions):
        yield _section(options, {"Broker setting": _behind})
    yield _section(ClientMetricsOptions, {})
    yield "\n## Accepted without effect\n\n"
    yield (
        "These keys load without a warning and change nothing. Keys that begin with\n"
        "`listener.name.` (settings for one listener) are accepted in the same way, but for\n"
        f"{_LISTENER_LIMITS} ([Network](#network)).\n"
    )
    for title, reason, names in families():
        yield f"\n**{title}.** {reason}\n{', '.join(f'`{name}`' for name in names)}\n"
    yield "\n## Replaced long ago\n\nThese keys give a warning that names their successor.\n\n"
    yield "".join(f"- `{old}`: write {new} instead\n" for old, new in replacements().items())


def _section(options: type[Options], more: dict[str, Column]) -> str:
    intro = " ".join((options.__doc__ or "").split())
    return f"\n## {options.title}\n\n{intro}\n\n{option_table(options.table.values(), more)}"


def _behind(option: AnyOption) -> str:
    return ", ".join(f"`{synonym.option.name}`" for synonym in option.synonyms)


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
