"""The settings of clients, under Kafka's names, with Kafka's units and defaults."""

from moldau.client.settings.admin import AdminSettings
from moldau.client.settings.common import CommonSettings
from moldau.client.settings.consumer import ConsumerSettings
from moldau.client.settings.producer import ALL_REPLICAS, ProducerSettings
from moldau.config.option import ConfigError

__all__ = [
    "ALL_REPLICAS",
    "AdminSettings",
    "CommonSettings",
    "ConfigError",
    "ConsumerSettings",
    "ProducerSettings",
]
