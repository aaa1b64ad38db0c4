"""The settings of a broker, described."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import dropwhile

from moldau.config.describing.entry import ConfigEntry, ConfigSource, ConfigSynonym
from moldau.config.option import AnyOption, ConfigError, Update
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.ignored import is_ignored, is_secret
from moldau.config.options.network import listener_limit
from moldau.config.options.topic import TopicOptions
from moldau.config.types import ConfigType
from moldau.config.values.broker import BrokerConfig

_ALIASES: dict[str, tuple[AnyOption, ...]] = {
    synonym.option.name: tuple(each.option for each in option.synonyms)
    for option in TopicOptions.table.values()
    if len(option.synonyms) > 1
    for synonym in option.synonyms
    if synonym.option is not BrokerOptions.log_flush_scheduler_interval_ms
}
"""Broker settings that are one setting in several units, the winning one first."""

_REQUIRED = frozenset({"node.id", "process.roles", "controller.listener.names"})
"""Settings without a default in Kafka, so that none is listed among their synonyms."""


def describe_broker(config: BrokerConfig, names: Container[str] | None = None) -> list[ConfigEntry]:
    """This broker's settings; ``names`` restricts the answer."""
    listed = dict.fromkeys(name for name, option in BrokerOptions.table.items() if option.listed)
    assigned = dict.fromkeys((*config.static, *config.cluster_dynamic, *config.broker_dynamic))
    return [
        _entry(config, name, tuple(broker_synonyms(config, name)))
        for name in listed | assigned
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
                for synonym in broker_synonyms(config, name)
                if synonym.source is ConfigSource.CLUSTER_DEFAULT
            )
            entry = _entry(config, name, synonyms)
            entries.append(entry._replace(value=synonyms[0].value))
    return entries


def broker_synonyms(config: BrokerConfig, name: str) -> Iterator[ConfigSynonym]:
    """The places from which a broker's setting could come, the winning one first."""
    option = BrokerOptions.table.get(name)
    synonyms: list[ConfigSynonym] = []
    if option is None:
        synonyms += [
            ConfigSynonym(name, None if _hidden(name) else text, source)
            for text, source in config.settings_of(name)
        ]
        option = listener_limit(name)
    family = () if option is None else _ALIASES.get(name, (option,))
    synonyms += [
        ConfigSynonym(member.name, shown(member, text), source)
        for member in family
        for text, source in config.settings_of(member.name)
    ]
    synonyms += [
        ConfigSynonym(member.name, member.format(member.default), ConfigSource.DEFAULT)
        for member in family
        if member.default is not None and member.listed and member.name not in _REQUIRED
    ]
    synonyms.sort(key=lambda synonym: synonym.source)
    yield from dropwhile(lambda synonym: synonym.name != name, synonyms)


def shown(option: AnyOption, text: str) -> str | None:
    """The text in the form in which Kafka prints the parsed value."""
    if option.sensitive:
        return None
    try:
        return option.format(option.parse(text))
    except ConfigError:  # a stored value that no longer holds is shown as it is
        return text


def _entry(config: BrokerConfig, name: str, synonyms: tuple[ConfigSynonym, ...]) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    option = BrokerOptions.table.get(name)
    if option is None:
        limit = listener_limit(name)
        kind = ConfigType.UNKNOWN if limit is None else limit.type
        return ConfigEntry(name, synonyms[0].value, source, kind, True, _hidden(name), synonyms)
    return ConfigEntry(
        name,
        None if option.sensitive else option.format(config.value(option)),
        source,
        option.type,
        option.update is Update.READ_ONLY,
        option.sensitive,
        synonyms,
        option.doc,
    )


def _hidden(name: str) -> bool:
    """Returns whether a setting that is not ours must not be shown: an unknown one may hold a
    secret.
    """
    return not is_ignored(name) or is_secret(name)
