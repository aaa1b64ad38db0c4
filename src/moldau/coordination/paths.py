"""Where things are kept in the store. The paths are Kafka's (its ``ZkData``)."""

from __future__ import annotations

from urllib.parse import quote, unquote

from moldau.quotas.entity import CLIENT_ID, IP, USER, ClientQuotaEntity

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CLUSTER_ID = "/cluster/id"
CLUSTER_SECRET = "/cluster/secret"  # noqa: S105 - where it is, not what it is
SECRET_VERIFIER = "/cluster/secret_verifier"  # noqa: S105 - the same
DELETE_TOPICS = "/admin/delete_topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
USER_CONFIGS = "/config/users"
CLIENT_CONFIGS = "/config/clients"
IP_CONFIGS = "/config/ips"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
SUSPECTED_LOSS = "/admin/suspected_loss"
"""Not Kafka's: there from the moment when changes may have been lost, by damage to the store's
files, until a broker has compared the store with its log directories.
"""

DEFAULT_ENTITY = "<default>"
"""Under /config/brokers, /config/users, /config/clients and /config/ips: settings for each that has
none of its own.
"""

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
    CLIENT_CONFIGS,
    USER_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    IP_CONFIGS,
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


def clients_of_user(user_node: str) -> str:
    """Where quotas of a user's clients are; ``user_node`` is the name of the user's own node."""
    return f"{USER_CONFIGS}/{user_node}/clients"


def client_quotas(entity: ClientQuotaEntity) -> str:
    entries = {kind: quota_node(name) for kind, name in entity.entries}
    if IP in entries:
        return f"{IP_CONFIGS}/{entries[IP]}"
    if USER not in entries:
        return f"{CLIENT_CONFIGS}/{entries[CLIENT_ID]}"
    if CLIENT_ID not in entries:
        return f"{USER_CONFIGS}/{entries[USER]}"
    return f"{clients_of_user(entries[USER])}/{entries[CLIENT_ID]}"


def client_quota_parents(entity: ClientQuotaEntity) -> list[str]:
    """Returns the nodes that a user has to have before the user's clients can have quotas."""
    entries = entity.as_dict()
    if not entries.keys() >= {USER, CLIENT_ID}:
        return []
    user = quota_node(entries[USER])
    return [f"{USER_CONFIGS}/{user}", clients_of_user(user)]


def quota_node(name: str | None) -> str:
    """Returns the node of a user, client or address; None is the default one."""
    return DEFAULT_ENTITY if name is None else escaped(name)


def quota_name(node: str) -> str | None:
    return None if node == DEFAULT_ENTITY else unescaped(node)


def escaped(name: str) -> str:
    """Returns a name that may hold any character, as the name of a node; as Kafka does with
    users.
    """
    return quote(name, safe="").replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def unescaped(node: str) -> str:
    return unquote(node)
