"""Settings of broker, topics and groups: one ``Option`` each, with Kafka's names and defaults.

    config = BrokerConfig.load("server.properties", {"num.partitions": "3"})
    config[NUM_PARTITIONS]                                      # 3, an int for the type checker too
    topic_config(config, {"retention.ms": "60000"}).retention_ms

The constants are the settings' names in capitals: ``log.segment.bytes`` is ``LOG_SEGMENT_BYTES``.
Where broker and topic share a name, the topic's begins with ``TOPIC_``.
"""

# Stars, because listing some 200 constants here would spell each setting twice; "x as x" is how a
# type checker is told of a re-export.
# ruff: noqa: F403, I001
from moldau.config.broker import BrokerConfig as BrokerConfig
from moldau.config.describe import (
    ConfigEntry as ConfigEntry,
    ConfigSynonym as ConfigSynonym,
    describe_broker as describe_broker,
    describe_cluster_defaults as describe_cluster_defaults,
    describe_group as describe_group,
    describe_new_topic as describe_new_topic,
    describe_topic as describe_topic,
)
from moldau.config.dynamic import (
    Alteration as Alteration,
    AlterOp as AlterOp,
    apply_incremental as apply_incremental,
    apply_replacement as apply_replacement,
    validate_broker_update as validate_broker_update,
)
from moldau.config.group import (
    GroupConfig as GroupConfig,
    group_config as group_config,
    validate_group_configs as validate_group_configs,
)
from moldau.config.group_options import *
from moldau.config.listeners import Endpoint as Endpoint
from moldau.config.log_options import *
from moldau.config.network_options import *
from moldau.config.option import (
    AnyOption as AnyOption,
    ConfigError as ConfigError,
    ConfigSource as ConfigSource,
    ConfigType as ConfigType,
    Option as Option,
    Update as Update,
)
from moldau.config.properties import parse_properties as parse_properties
from moldau.config.replication_options import *
from moldau.config.server_options import *
from moldau.config.tables import (
    BROKER_OPTIONS as BROKER_OPTIONS,
    GROUP_OPTIONS as GROUP_OPTIONS,
    TOPIC_OPTIONS as TOPIC_OPTIONS,
)
from moldau.config.topic import (
    topic_config as topic_config,
    validate_topic_configs as validate_topic_configs,
)
from moldau.config.topic_options import *
from moldau.config.topic_values import TopicConfig as TopicConfig
from moldau.config.transaction_options import *
