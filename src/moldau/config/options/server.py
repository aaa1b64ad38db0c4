"""Options: who a node is, under the names of both of Kafka's eras; and those that stand alone."""

from __future__ import annotations

from moldau.config.declare import CLUSTER_WIDE, boolean, integer, names, optional_string, string
from moldau.config.option import Options
from moldau.config.validators import EachOf


class IdentityOptions(Options):
    """Who this node is. Files written for ZooKeeper-era brokers (`broker.id`, `zookeeper.connect`)
    and for KRaft nodes (`node.id`, `process.roles`) both load.
    """

    title = "Identity and roles"

    node_id = integer(
        1,
        "The number of this node, unique in the cluster. `broker.id` is its older name; when both "
        "are set they must agree. Apache Kafka has no default here; a single Moldau node is node "
        "1.",
        at_least=0,
    )
    broker_id = integer(-1, "The older name of `node.id`. -1 means that it is not set.")
    broker_rack = optional_string(
        "The rack or zone in which this broker stands. Replicas of a partition are spread over "
        "racks, and consumers that name their rack may be sent to a replica nearby."
    )
    process_roles = names(
        (),
        "The KRaft roles of this process. Every Moldau node is a broker and may become "
        "controller, so `broker` and `broker,controller` both load; a node that is only "
        "`controller` is refused.",
        allowed=EachOf("broker", "controller"),
    )
    controller_listener_names = names(
        (),
        "Names of the listeners that a KRaft controller would use. They are recognised in "
        "`listeners` and not opened, because controller and broker share one process here.",
    )
    controller_quorum_voters = names(
        (),
        "The KRaft controllers as `id@host:port`. Read so that KRaft files load; Moldau elects "
        "its controller through the coordination store.",
        inert=True,
    )
    controller_quorum_bootstrap_servers = names(
        (), "Where KRaft controllers can be found. Read so that KRaft files load.", inert=True
    )
    broker_id_generation_enable = boolean(
        True,
        "Whether a ZooKeeper-era broker without an id may be given one. A Moldau node without an "
        "id is node 1.",
        inert=True,
        listed=False,
    )
    reserved_broker_max_id = integer(
        1000,
        "The highest id that could be set by hand on a ZooKeeper-era broker.",
        at_least=0,
        inert=True,
        listed=False,
    )


class GeneralOptions(Options):
    """Settings that stand alone."""

    title = "Other"

    authorizer_class_name = string(
        "",
        "The class that decides who may do what. Access control is not served yet, so any value "
        "here stops the start rather than leaving the broker open without a word.",
    )
    remote_log_storage_system_enable = boolean(
        False,
        "Whether tiered storage is on. Moldau keeps logs on local disks only: `true` stops the "
        "start.",
    )
    metrics_listener = optional_string(
        "Where metrics can be read over HTTP, as `HTTP://host:port`: `/metrics` has them in the "
        "text format of Prometheus, under the names that [operations.md](operations.md#metrics) "
        "lists. Whoever can connect can read them. Not set: no port is opened. Apache Kafka has "
        "no such setting; its metrics are in JMX.",
        listed=False,
    )
    config_providers = names(
        (),
        "Names of sources for `${...}` placeholders in values. Placeholders are not replaced; a "
        "value that holds one while this is set stops the start.",
        update=CLUSTER_WIDE,
    )
    background_threads = integer(
        10,
        "The size of Kafka's pool for background work. Moldau works on one event loop with a few "
        "helper threads.",
        at_least=1,
        update=CLUSTER_WIDE,
        inert=True,
    )
