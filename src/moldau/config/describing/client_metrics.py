"""The settings of a subscription to clients' metrics, described."""

from __future__ import annotations

from collections.abc import Container, Mapping

from moldau.config.describing.broker import shown
from moldau.config.describing.entry import ConfigEntry, ConfigSource, ConfigSynonym
from moldau.config.option import AnyOption
from moldau.config.options.client_metrics import ClientMetricsOptions


def describe_client_metrics(
    overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[ConfigEntry]:
    """A subscription's settings; it need not exist. ``names`` restricts the answer."""
    return [
        _entry(option, overrides.get(name))
        for name, option in ClientMetricsOptions.table.items()
        if names is None or name in names
    ]


def _entry(option: AnyOption, own: str | None) -> ConfigEntry:
    if own is None:
        value, source = option.format(option.default), ConfigSource.DEFAULT
        synonyms: tuple[ConfigSynonym, ...] = ()
    else:
        value, source = shown(option, own), ConfigSource.CLIENT_METRICS
        synonyms = (ConfigSynonym(option.name, value, source),)
    return ConfigEntry(
        option.name, value, source, option.type, False, option.sensitive, synonyms, option.doc
    )
