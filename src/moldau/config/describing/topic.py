"""The settings of a topic, described."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from moldau.config.describing.broker import broker_synonyms, shown
from moldau.config.describing.entry import ConfigEntry, ConfigSource, ConfigSynonym
from moldau.config.option import AnyOption
from moldau.config.options.topic import TopicOptions
from moldau.config.values.broker import BrokerConfig


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[ConfigEntry]:
    """A topic's settings; ``names`` restricts the answer."""
    return [
        _entry(config, option, overrides, tuple(_synonyms(config, option, overrides)))
        for name, option in TopicOptions.table.items()
        if (names is None or name in names) and (option.listed or name in overrides)
    ]


def describe_new_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """A topic's settings as CreateTopics answers them.

    Compared with ``describe_topic``: the true source, no synonyms, and the texts as they came.
    """
    entries = []
    for name, option in TopicOptions.table.items():
        own = overrides.get(name)
        if own is not None:
            entries.append(_entry(config, option, overrides, ())._replace(value=own))
        elif option.listed:
            entry = _entry(config, option, overrides, ())
            entries.append(entry._replace(source=_true_source(config, option)))
    return entries


def _true_source(config: BrokerConfig, option: AnyOption) -> ConfigSource:
    for synonym in option.synonyms:
        for _, source in config.settings_of(synonym.option.name):
            return source
    return ConfigSource.DEFAULT


def _entry(
    config: BrokerConfig,
    option: AnyOption,
    overrides: Mapping[str, str],
    synonyms: tuple[ConfigSynonym, ...],
) -> ConfigEntry:
    own = overrides.get(option.name)
    if own is not None:
        value, source = shown(option, own), ConfigSource.TOPIC
    else:
        value = option.format(config.topic_value(option))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigEntry(
        option.name, value, source, option.type, False, option.sensitive, synonyms, option.doc
    )


def _synonyms(
    config: BrokerConfig, option: AnyOption, overrides: Mapping[str, str]
) -> Iterator[ConfigSynonym]:
    own = overrides.get(option.name)
    if own is not None:
        yield ConfigSynonym(option.name, shown(option, own), ConfigSource.TOPIC)
    if option.synonyms:
        yield from broker_synonyms(config, option.synonyms[0].option.name)
