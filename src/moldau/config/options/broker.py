"""All options of a broker, in the order of the documentation's sections."""

from __future__ import annotations

from moldau.config.options.cleaner import CleanerOptions
from moldau.config.options.coordination import CoordinationOptions
from moldau.config.options.fetching import FetchOptions
from moldau.config.options.flushing import FlushOptions
from moldau.config.options.general import GeneralOptions
from moldau.config.options.group_coordinator import GroupCoordinatorOptions
from moldau.config.options.identity import IdentityOptions
from moldau.config.options.listeners import ListenerOptions
from moldau.config.options.log import LogOptions
from moldau.config.options.network import NetworkOptions
from moldau.config.options.replication import ReplicationOptions
from moldau.config.options.topic_creation import TopicCreationOptions
from moldau.config.options.transactions import TransactionOptions


class BrokerOptions(
    IdentityOptions,
    ListenerOptions,
    NetworkOptions,
    FetchOptions,
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
