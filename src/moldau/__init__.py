"""Moldau: Apache Kafka's job, done in Python.

The clients can be imported from here. They are loaded when they are asked for: a broker, and a
program that only wants the version, does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from moldau.client.errors import KafkaError as KafkaError
    from moldau.model import TopicPartition as TopicPartition

_PLACES = {
    "KafkaError": "moldau.client.errors",
    "TopicPartition": "moldau.model",
}
"""Where each public name lives."""


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'moldau' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
