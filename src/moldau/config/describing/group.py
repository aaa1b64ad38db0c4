"""The settings of a group, described."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from moldau.config.describing.broker import shown
from moldau.config.describing.entry import ConfigEntry, ConfigSource, ConfigSynonym
from moldau.config.option import AnyOption
from moldau.config.options.group import GroupOptions
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.group import broker_value


def describe_group(
    config: BrokerConfig, overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[ConfigEntry]:
    """A group's settings; a group need not exist to have some. ``names`` restricts the answer."""
    return [
        _entry(config, option, overrides.get(name))
        for name, option in GroupOptions.table.items()
        if names is None or name in names
    ]


def _entry(config: BrokerConfig, option: AnyOption, own: str | None) -> ConfigEntry:
    value = option.format(broker_value(config, option)) if own is None else own
    synonyms = tuple(_synonyms(config, option, own))
    source = synonyms[0].source
    return ConfigEntry(
        option.name, value, source, option.type, False, option.sensitive, synonyms, option.doc
    )


def _synonyms(config: BrokerConfig, option: AnyOption, own: str | None) -> Iterator[ConfigSynonym]:
    if own is not None:
        yield ConfigSynonym(option.name, own, ConfigSource.GROUP)
    name = option.synonyms[0].option.name if option.synonyms else option.name
    if option.synonyms:
        for text, source in config.settings_of(name):
            yield ConfigSynonym(name, shown(option, text), source)
    yield ConfigSynonym(name, option.format(option.default), ConfigSource.DEFAULT)
