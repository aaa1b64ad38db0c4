"""From the text of a ``server.properties`` to keys and values, and what is said about odd keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from moldau.config.option import ConfigError
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.ignored import is_ignored, replacements
from moldau.config.options.network import listener_limit
from moldau.config.options.topic import TopicOptions
from moldau.config.properties import decode_properties, parse_properties

FilePath: TypeAlias = str | PathLike[str]


def read_server_properties(path: FilePath) -> dict[str, str]:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror or error}") from None
    return parse_properties(decode_properties(data))


def with_aliases(settings: Mapping[str, str]) -> dict[str, str]:
    """``node.id`` and ``broker.id`` name the same thing; -1 for the latter means "not set"."""
    static = dict(settings)
    node, broker = static.get("node.id"), static.get("broker.id")
    if broker is not None and broker.strip() == "-1":
        del static["broker.id"]
        broker = None
    if node is None and broker is not None:
        static["node.id"] = broker
    elif broker is None and node is not None:
        static["broker.id"] = node
    elif node is not None and broker is not None and node.strip() != broker.strip():
        raise ConfigError(
            f"node.id={node} and broker.id={broker} are two names of one setting and must agree"
        )
    return static


def ignored_keys(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Settings in use that are known elsewhere and have no effect here."""
    return tuple(name for name in settings if not _has_effect(name) and is_ignored(name))


def unknown_keys(settings: Mapping[str, str]) -> Iterator[str]:
    """A warning for each key that means nothing, with the one that was probably meant."""
    for name in settings:
        if _has_effect(name) or is_ignored(name):
            continue
        successor = replacements().get(name)
        if successor is not None:
            yield f"The old setting {name} is ignored; write {successor} instead"
            continue
        guess = _nearest(name)
        hint = f"; did you mean {guess}?" if guess else ""
        yield f"The unknown setting {name} is ignored{hint}"


def _has_effect(name: str) -> bool:
    return name in BrokerOptions.table or listener_limit(name) is not None


def _nearest(name: str) -> str | None:
    option = TopicOptions.table.get(name)
    if option is not None and option.synonyms:  # a topic's setting where the broker's belongs
        return option.synonyms[0].option.name
    from difflib import get_close_matches  # rarely needed, and start-up time counts

    matches = get_close_matches(name, BrokerOptions.table, n=1, cutoff=0.8)
    return matches[0] if matches else None
