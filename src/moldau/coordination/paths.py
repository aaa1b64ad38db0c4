"""Where things are kept in the store. The paths are Kafka's (its ``ZkData``)."""

from __future__ import annotations

from urllib.parse import quote, unquote

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CLUSTER_ID = "/cluster/id"
DELETE_TOPICS = "/admin/delete_topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

DEFAULT_ENTITY = "<default>"
"""Under /config/brokers: settings for every broker that has none of its own."""

PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    "/config/changes",
    DELETE_TOPICS,
    "/brokers/seqid",
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    "/log_dir_event_notification",
    TOPIC_CONFIGS,
    "/config/clients",
    "/config/users",
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    "/config/ips",
    "/cluster",
)
"""Paths that exist in every cluster from its first start."""


def broker_id(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}"


def partition_state(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}/state"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def topic_config(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config(entity: str) -> str:
    """``entity`` is a broker id, or empty for the settings of all brokers."""
    return f"{BROKER_CONFIGS}/{entity or DEFAULT_ENTITY}"


def group_config(group: str) -> str:
    return f"{GROUP_CONFIGS}/{escaped(group)}"


def client_metrics_config(subscription: str) -> str:
    return f"{CLIENT_METRICS_CONFIGS}/{escaped(subscription)}"


def escaped(name: str) -> str:
    """Returns a name that may hold any character, as the name of a node; as Kafka does with
    users.
    """
    return quote(name, safe="").replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def unescaped(node: str) -> str:
    return unquote(node)
