"""Values that settings refuse: every setting of topics, groups and running brokers with each."""

from __future__ import annotations

from collections.abc import Iterator

from tests.compat.bad_requests import BROKER, GROUP, Case, alter_config, create_with

from moldau.config.option import AnyOption, Update
from moldau.config.options.broker import BrokerOptions
from moldau.config.options.group import GroupOptions
from moldau.config.options.topic import TopicOptions
from moldau.config.types import ConfigType

NUMBERS = ("", "soon", "1.5", "-99", "99999999999999999999", "9223372036854775807")
OTHERS = {
    ConfigType.BOOLEAN: ("", "perhaps"),
    ConfigType.DOUBLE: ("", "soon", "-1", "99"),
    ConfigType.LIST: ("nonsense",),
    ConfigType.STRING: ("nonsense",),
}
"""What a value of the type is not. Passwords and classes take anything, or belong to others."""


def values(option: AnyOption) -> tuple[str, ...]:
    if option.type in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT):
        return NUMBERS
    return OTHERS.get(option.type, ())


def cases() -> Iterator[Case]:
    for name, option in TopicOptions.table.items():
        for value in values(option):
            yield create_with(name, value)
    for name, option in GroupOptions.table.items():
        for value in values(option):
            yield alter_config(f"group {name}={value}", name, value, kind=GROUP, resource="group")
    for name, option in BrokerOptions.table.items():
        if option.update is not Update.READ_ONLY:
            for value in values(option):
                yield alter_config(f"broker {name}={value}", name, value, kind=BROKER, resource="1")
