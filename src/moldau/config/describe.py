"""What DescribeConfigs answers: each setting with its value, its source and its synonyms.

The rules are those of Apache Kafka 4.3, quirks included. The one worth knowing: synonyms are listed
from the first that carries the described name itself. So a ``retention.ms`` that comes from
``log.retention.hours`` is described without synonyms and as a default, until ``log.retention.ms``
is set somewhere too. CreateTopics names the true source; so does ``describe_new_topic``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import dropwhile
from typing import NamedTuple

from moldau.config.broker import BrokerConfig
from moldau.config.group import broker_value
from moldau.config.ignored import is_ignored, is_secret
from moldau.config.option import AnyOption, ConfigError, ConfigSource, ConfigType, Update
from moldau.config.per_group_options import broker_setting
from moldau.config.tables import BROKER_OPTIONS, GROUP_OPTIONS, TOPIC_OPTIONS
from moldau.config.topic_options import TOPIC_SYNONYMS

_ALIASES: dict[str, tuple[AnyOption, ...]] = {
    synonym.option.name: tuple(each.option for each in synonyms)
    for synonyms in TOPIC_SYNONYMS.values()
    if len(synonyms) > 1
    for synonym in synonyms
    if synonym.option.name != "log.flush.scheduler.interval.ms"
}
"""Broker settings that are one setting in several units, the winning one first."""


_REQUIRED = frozenset({"node.id", "process.roles", "controller.listener.names"})
"""Settings without a default in Kafka, so that none is listed among their synonyms."""


class ConfigSynonym(NamedTuple):
    """A place from which the value could come; the first of several wins."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One described setting."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: ConfigType
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[ConfigEntry]:
    """A topic's settings; ``names`` restricts the answer."""
    entries = []
    for option in TOPIC_OPTIONS.values():
        name = option.name
        if (names is None or name in names) and (option.listed or name in overrides):
            synonyms = tuple(_topic_synonyms(config, option, overrides))
            entries.append(_topic_entry(config, option, overrides, synonyms))
    return entries


def describe_new_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """A topic's settings as CreateTopics answers them.

    Compared with ``describe_topic``: the true source, no synonyms, and the texts as they came.
    """
    entries = []
    for option in TOPIC_OPTIONS.values():
        name = option.name
        own = overrides.get(name)
        if own is not None:
            entry = _topic_entry(config, option, overrides, ())._replace(value=own)
        elif option.listed:
            entry = _topic_entry(config, option, overrides, ())
            for synonym in TOPIC_SYNONYMS.get(name, ()):
                setting = next(config.settings_of(synonym.option.name), None)
                if setting is not None:
                    entry = entry._replace(source=setting.source)
                    break
        else:
            continue
        entries.append(entry)
    return entries


def describe_broker(config: BrokerConfig, names: Container[str] | None = None) -> list[ConfigEntry]:
    """This broker's settings."""
    given = dict.fromkeys((*config.static, *config.cluster_dynamic, *config.broker_dynamic))
    every = dict.fromkeys(name for name, option in BROKER_OPTIONS.items() if option.listed)
    return [
        _broker_entry(config, name, tuple(_broker_synonyms(config, name)))
        for name in every | given
        if names is None or name in names
    ]


def describe_cluster_defaults(
    config: BrokerConfig, names: Container[str] | None = None
) -> list[ConfigEntry]:
    """What was set at run time for all brokers: the answer for a broker resource without a name."""
    entries = []
    for name in config.cluster_dynamic:
        if names is None or name in names:
            synonyms = tuple(
                synonym
                for synonym in _broker_synonyms(config, name)
                if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            )
            entry = _broker_entry(config, name, synonyms)
            entries.append(entry._replace(value=synonyms[0].value))
    return entries


def describe_group(
    config: BrokerConfig, overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[ConfigEntry]:
    """A group's settings; a group need not exist to have some."""
    entries = []
    for option in GROUP_OPTIONS.values():
        if names is None or option.name in names:
            own = overrides.get(option.name)
            value = option.format(broker_value(config, option)) if own is None else own
            synonyms = tuple(_group_synonyms(config, option, own))
            entries.append(
                ConfigEntry(
                    option.name,
                    value,
                    synonyms[0].source,
                    option.sensitive,
                    False,
                    option.type,
                    option.doc,
                    synonyms,
                )
            )
    return entries


def _group_synonyms(
    config: BrokerConfig, option: AnyOption, own: str | None
) -> Iterator[ConfigSynonym]:
    if own is not None:
        yield ConfigSynonym(option.name, own, ConfigSource.GROUP_CONFIG)
    behind = broker_setting(option.name)
    if behind is not None:
        for setting in config.settings_of(behind):
            yield ConfigSynonym(behind, _shown(option, setting.text), setting.source)
    default = option.format(option.default)
    yield ConfigSynonym(behind or option.name, default, ConfigSource.DEFAULT_CONFIG)


def _topic_entry(
    config: BrokerConfig,
    option: AnyOption,
    overrides: Mapping[str, str],
    synonyms: tuple[ConfigSynonym, ...],
) -> ConfigEntry:
    own = overrides.get(option.name)
    if own is not None:
        value, source = _shown(option, own), ConfigSource.DYNAMIC_TOPIC_CONFIG
    else:
        value = option.format(config.topic_value(option.name))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(
        option.name, value, source, option.sensitive, False, option.type, option.doc, synonyms
    )


def _topic_synonyms(
    config: BrokerConfig, option: AnyOption, overrides: Mapping[str, str]
) -> Iterator[ConfigSynonym]:
    own = overrides.get(option.name)
    if own is not None:
        yield ConfigSynonym(option.name, _shown(option, own), ConfigSource.DYNAMIC_TOPIC_CONFIG)
    behind = TOPIC_SYNONYMS.get(option.name)
    if behind:
        yield from _broker_synonyms(config, behind[0].option.name)


def _broker_entry(
    config: BrokerConfig, name: str, synonyms: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    option = BROKER_OPTIONS.get(name)
    if option is None:
        kind = ConfigType.UNKNOWN
        value = synonyms[0].value
        return ConfigEntry(name, value, source, _hidden(name), True, kind, None, synonyms)
    value = None if option.sensitive else option.format(config[option])
    read_only = option.update is Update.READ_ONLY
    return ConfigEntry(
        name, value, source, option.sensitive, read_only, option.type, option.doc, synonyms
    )


def _broker_synonyms(config: BrokerConfig, name: str) -> Iterator[ConfigSynonym]:
    option = BROKER_OPTIONS.get(name)
    if option is None:
        for setting in config.settings_of(name):
            yield ConfigSynonym(name, None if _hidden(name) else setting.text, setting.source)
        return
    family = _ALIASES.get(name, (option,))
    found = [
        ConfigSynonym(member.name, _shown(member, setting.text), setting.source)
        for member in family
        for setting in config.settings_of(member.name)
    ]
    found += [
        ConfigSynonym(member.name, member.format(member.default), ConfigSource.DEFAULT_CONFIG)
        for member in family
        if member.default is not None and member.listed and member.name not in _REQUIRED
    ]
    found.sort(key=lambda synonym: synonym.source)
    yield from dropwhile(lambda synonym: synonym.name != name, found)


def _shown(option: AnyOption, text: str) -> str | None:
    """The text in the form in which Kafka prints the parsed value."""
    if option.sensitive:
        return None
    try:
        return option.format(option.parse(text))
    except ConfigError:  # a stored value that no longer holds is shown as it is
        return text


def _hidden(name: str) -> bool:
    """Whether a setting that is not ours must not be shown: an unknown one may hold a secret."""
    return not is_ignored(name) or is_secret(name)
