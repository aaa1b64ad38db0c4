"""All options of a broker, in the order of the documentation's sections."""

from __future__ import annotations

from moldau.config.options.cleaner import CleanerOptions
from moldau.config.options.coordination import CoordinationOptions
from moldau.config.options.group_coordinator import GroupCoordinatorOptions
from moldau.config.options.listeners import ListenerOptions
from moldau.config.options.log import FlushOptions, LogOptions
from moldau.config.options.network import FetchOptions, NetworkOptions
from moldau.config.options.quotas import QuotaOptions
from moldau.config.options.replication import ReplicationOptions
from moldau.config.options.server import GeneralOptions, IdentityOptions
from moldau.config.options.topic_creation import TopicCreationOptions
from moldau.config.options.transactions import TransactionOptions


class BrokerOptions(
    IdentityOptions,
    ListenerOptions,
    NetworkOptions,
    FetchOptions,
    QuotaOptions,
    TopicCreationOptions,
    LogOptions,
    FlushOptions,
    CleanerOptions,
    ReplicationOptions,
    TransactionOptions,
    GroupCoordinatorOptions,
    CoordinationOptions,
    GeneralOptions,
):
    """What ``server.properties`` may say."""
